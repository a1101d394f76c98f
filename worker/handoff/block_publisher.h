// Publishes one sequence's blocks to the store as they fill: committed tokens
// only, in order, on an executor, never delaying the engine. The first failure
// ends publishing for this sequence; what was committed before stays good.
#ifndef BATON_WORKER_HANDOFF_BLOCK_PUBLISHER_H_
#define BATON_WORKER_HANDOFF_BLOCK_PUBLISHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kvstore/block/block_key.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/executor.h"
#include "services/base/ids.h"
#include "services/base/mutex.h"
#include "worker/cache/block_pool.h"
#include "worker/handoff/block_packing.h"
#include "worker/handoff/handoff_manifest.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/handoff/lease_book.h"

namespace baton::worker {

// What was published of a sequence: a contiguous run from position 0, and the
// lease that pins it. The lease is null if none was ever granted.
struct PublishedPrefix {
  std::vector<HandoffBlock> blocks;
  std::unique_ptr<HeldLease> lease;
};

// Thread-safe. Create with a shared_ptr: tasks on the executor keep it alive.
class BlockPublisher : public std::enable_shared_from_this<BlockPublisher> {
 public:
  struct Options {
    // A lease is asked for under this id when none is given.
    HandoffId handoff;
    // Blocks that wait; one more is dropped, which ends publishing.
    size_t max_queued = 64;
    BlockShape shape;
    // Of primed blocks the draft rows are published too, if this is not empty.
    DraftShape drafts;
  };
  // The end of a prompt that does not fill a block.
  struct Tail {
    kvstore::BlockKey key;
    BlockRef block;
    uint32_t tokens = 0;
  };

  // Pointers must outlive the executor's tasks. `lease` may be null: then the
  // first block asks for one. `present`: leading blocks the store has already,
  // pinned by `lease`.
  static std::shared_ptr<BlockPublisher> Create(
      const Options& options, kvstore::KvStoreClient* store, LeaseBook* leases,
      Executor* executor, const HandoffMetrics* metrics,
      std::unique_ptr<HeldLease> lease,
      std::vector<kvstore::ObjectInfo> present);

  // Queues full block `index`. Ignored if it was queued before, or after a
  // failure, Stop or Finish; of a block that is present only the draft rows
  // are published. Never blocks.
  void Add(uint32_t index, const kvstore::BlockKey& key, const BlockRef& block);

  // Publishes what is queued, then `tail` as an ephemeral object if all
  // `full_blocks` are there, then calls `done` once, on the executor (or in
  // this call if the executor refuses). Call once.
  void Finish(uint32_t full_blocks, std::optional<Tail> tail,
              std::function<void(PublishedPrefix)> done);

  // Drops the queue; a Finish in progress ends after the block in flight.
  // Idempotent.
  void Stop();

 private:
  struct Queued {
    uint32_t index;
    kvstore::BlockKey key;
    BlockRef block;
    bool target;  // what is to be published of it
    bool draft;
  };

  BlockPublisher(const Options& options, kvstore::KvStoreClient* store,
                 LeaseBook* leases, Executor* executor,
                 const HandoffMetrics* metrics);

  // Starts the drain task unless one runs.
  void ScheduleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drain();
  std::optional<Queued> TakeNext();
  absl::Status PublishBlock(const Queued& queued);
  // Draft rows are a convenience: the loss is counted, and that is all.
  std::optional<kvstore::ObjectInfo> PublishDraft(
      const kvstore::BlockKey& key, std::span<const std::byte> payload,
      bool ephemeral);
  absl::Status EnsureLease();
  void PublishTail();
  void Fail(const absl::Status& status);
  void Conclude();
  bool CompleteLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  kvstore::KvStoreClient* const store_;
  LeaseBook* const leases_;
  Executor* const executor_;
  const HandoffMetrics* const metrics_;
  // Set before the first task or by the one drain task; read by it alone.
  std::unique_ptr<HeldLease> lease_;

  // Held over Executor::Post, whose own lock comes after it.
  Mutex mutex_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  // By index; nullopt = queued, not yet committed.
  std::map<uint32_t, std::optional<kvstore::ObjectInfo>> blocks_
      ABSL_GUARDED_BY(mutex_);
  // The same of draft rows.
  std::map<uint32_t, std::optional<kvstore::ObjectInfo>> drafts_
      ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t full_blocks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Tail> tail_ ABSL_GUARDED_BY(mutex_);
  std::optional<HandoffBlock> tail_object_ ABSL_GUARDED_BY(mutex_);
  std::function<void(PublishedPrefix)> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_BLOCK_PUBLISHER_H_
