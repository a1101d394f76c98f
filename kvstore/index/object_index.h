// The store's decisions: which objects exist, who pins them, what is evicted.
//
// An object goes through these states, and through no other transition:
//
//   reserved --Write*--> reserved --Commit--> committed
//   reserved --lease ends, or its bytes are damaged--> gone
//   committed --evicted (unpinned only), deleted or flushed--> gone
//
// Only committed objects are visible. The room of reserved ones counts, so a
// granted reservation can always be committed. An object is pinned while any
// lease holds it; an ephemeral one is dropped with its last pin, any other
// becomes the most recently used of the evictable ones.
//
// Every call but Lookup names the epoch it believes the store to be in, and
// gets kAborted if that is an earlier life of it.
#ifndef BATON_KVSTORE_INDEX_OBJECT_INDEX_H_
#define BATON_KVSTORE_INDEX_OBJECT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvstore/block/block_key.h"
#include "kvstore/block/object_info.h"
#include "kvstore/index/index_metrics.h"
#include "kvstore/index/lease_table.h"
#include "kvstore/store/payload_store.h"
#include "services/base/clock.h"
#include "services/base/ids.h"
#include "services/base/mutex.h"

namespace baton::kvstore {

// Thread-safe. Holds its lock for bookkeeping only: payload bytes are copied,
// checked, allocated and freed outside of it.
class ObjectIndex {
 public:
  struct Options {
    Epoch epoch;  // drawn anew at each start
    // Bounds the footprints of committed and reserved objects together.
    uint64_t capacity_bytes = uint64_t{1} << 30;
    // A longer wish is cut to this.
    absl::Duration max_lease_ttl = absl::Seconds(10);
    size_t max_leases = 65536;
    size_t max_pending_writes = 4096;
  };

  // `store`, `clock` and `metrics` must outlive the index.
  ObjectIndex(const Options& options, PayloadStore* store, const Clock* clock,
              telemetry::MetricsRegistry* metrics);

  Epoch epoch() const { return options_.epoch; }

  struct Grant {
    LeaseId lease;
    std::vector<ObjectInfo> hits;
  };
  // Pins the longest run of leading `keys` under the handoff's lease, which is
  // granted or extended in the same step. `ttl` zero asks for the longest.
  // Errors: kInvalidArgument (no handoff id, negative ttl), kUnavailable (new
  // lease while draining), kResourceExhausted (max_leases).
  absl::StatusOr<Grant> Lookup(const HandoffId& handoff,
                               std::span<const BlockKey> keys,
                               absl::Duration ttl);

  struct Reservation {
    std::optional<ObjectInfo> existing;  // now pinned by the lease
    WriteId write;                       // if not existing
  };
  // Several writers may reserve one key; the first commit wins. An existing
  // ephemeral object that is asked for as a lasting one becomes that.
  // Errors: kInvalidArgument (no bytes), kAborted (epoch, lease),
  // kFailedPrecondition (exists with another size), kResourceExhausted.
  absl::StatusOr<Reservation> Reserve(Epoch epoch, LeaseId lease,
                                      const BlockKey& key,
                                      uint64_t payload_bytes, bool ephemeral);

  // Appends `bytes`, whose CRC32C is `crc32c`; `offset` must be what has been
  // written so far. Errors: kAborted (epoch, lease or write gone),
  // kInvalidArgument (order, bounds), kFailedPrecondition (another Write of it
  // is running), kDataLoss (CRC; the write is dropped).
  absl::Status Write(Epoch epoch, WriteId write, uint64_t offset,
                     std::span<const std::byte> bytes, uint32_t crc32c);

  // Makes the object visible, pinned by the lease. If another writer was
  // faster, its object is pinned and returned instead.
  // Errors: kAborted, kFailedPrecondition (a Write is running), kDataLoss
  // (incomplete or CRC; the write is dropped).
  absl::StatusOr<ObjectInfo> Commit(Epoch epoch, WriteId write,
                                    uint32_t crc32c);

  struct OpenObject {
    ObjectInfo info;
    // Stays valid whatever becomes of the object.
    std::shared_ptr<const Payload> payload;
  };
  // Errors: kAborted (epoch, lease), kNotFound (object or generation gone).
  absl::StatusOr<OpenObject> Open(Epoch epoch, LeaseId lease,
                                  const BlockKey& key, Generation generation);

  // Extends the lease; never shortens it. Errors: kAborted, kInvalidArgument.
  absl::Status Renew(Epoch epoch, LeaseId lease, absl::Duration ttl);
  // Ends the lease; ok if it has ended before. Errors: kAborted (epoch).
  absl::Status Release(Epoch epoch, LeaseId lease);
  // Drops an object that a reader found damaged, pinned or not.
  // Errors: kAborted (epoch), kNotFound (object or generation gone).
  absl::Status Delete(Epoch epoch, const BlockKey& key, Generation generation);

  // Ends expired leases and, with them, their unfinished writes. Called by a
  // timer that nothing else drives.
  void Reap();
  // Drops all unpinned objects; returns how many.
  uint64_t Flush();
  // From now on no new lease is granted; held ones go on.
  void StopAdmission();

  struct Stat {
    uint64_t objects = 0;
    uint64_t pinned_objects = 0;
    uint64_t used_bytes = 0;  // footprints, reservations included
    uint64_t capacity_bytes = 0;
    uint64_t leases = 0;
    uint64_t pending_writes = 0;
  };
  Stat GetStat() const;

 private:
  using LruList = std::list<BlockKey>;  // front = least recently used
  // Payloads to free once the lock is released.
  using Dropped = std::vector<std::shared_ptr<Payload>>;

  struct Object {
    ObjectInfo info;
    std::shared_ptr<Payload> payload;
    uint64_t footprint = 0;
    bool ephemeral = false;
    uint32_t pins = 0;
    LruList::iterator lru;  // valid while pins == 0
  };
  struct PendingWrite {
    BlockKey key;
    LeaseId lease;
    std::shared_ptr<Payload> payload;  // null until allocated
    uint64_t payload_bytes = 0;
    uint64_t footprint = 0;
    bool ephemeral = false;
    uint64_t written = 0;
    uint32_t crc32c = 0;  // of what is written
    bool writing = false;
  };
  enum class LeaseEnd { kReleased, kExpired };

  absl::Status CheckEpoch(Epoch epoch) const;
  absl::StatusOr<absl::Duration> Deadline(absl::Duration ttl) const;
  absl::StatusOr<LeaseEntry*> LiveLeaseLocked(LeaseId lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<PendingWrite*> LiveWriteLocked(WriteId write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<LeaseEntry*> GrantLocked(const HandoffId& handoff,
                                          absl::Duration deadline,
                                          Dropped* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Existing object (pinned), or room set aside without its payload.
  absl::StatusOr<Reservation> ReserveRoom(LeaseId lease, const BlockKey& key,
                                          uint64_t payload_bytes,
                                          bool ephemeral);
  absl::Status AttachPayload(WriteId write, std::shared_ptr<Payload> payload);
  absl::StatusOr<ObjectInfo> PinExistingLocked(LeaseEntry* lease,
                                               Object* object,
                                               uint64_t payload_bytes,
                                               bool ephemeral)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unpinned at first.
  Object* InsertLocked(PendingWrite pending)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ListLocked(Object* object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnlistLocked(Object* object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PinLocked(LeaseEntry* lease, Object* object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLeaseLocked(LeaseId lease, LeaseEnd end, Dropped* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnpinLocked(const LeaseEntry::Pin& pin, LeaseEnd end, Dropped* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoomLocked(uint64_t footprint, Dropped* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropObjectLocked(const BlockKey& key, Dropped* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropWriteLocked(WriteId write, Dropped* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishGaugesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  PayloadStore* const store_;
  const Clock* const clock_;
  const IndexMetrics metrics_;

  mutable Mutex mutex_;
  LeaseTable leases_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<BlockKey, Object> objects_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<WriteId, PendingWrite> writes_ ABSL_GUARDED_BY(mutex_);
  LruList evictable_ ABSL_GUARDED_BY(mutex_);
  uint64_t evictable_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_write_ ABSL_GUARDED_BY(mutex_) = 0;
  bool admitting_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_INDEX_OBJECT_INDEX_H_
