// The worker's KV memory: a fixed number of equal blocks, handed out as
// reference-counted handles, and an index from block keys to blocks that keep
// their contents after the last reader has gone. Sequences that share a prefix
// share its blocks; nothing is copied.
//
// A block is free (no contents), cached (indexed, no reader; evicted in LRU
// order when room is needed) or held (one or more BlockRefs). Only full blocks
// of committed tokens are ever indexed. A partial block belongs to exactly one
// sequence.
#ifndef BATON_WORKER_CACHE_BLOCK_POOL_H_
#define BATON_WORKER_CACHE_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/block/block_key.h"
#include "services/base/ids.h"

namespace baton::worker {

class BlockPool;

// A counted reference to a block; moves and copies like a shared_ptr. The
// pool must outlive it. Thread-safe in the sense of shared_ptr. Copying is one
// atomic addition; only the last handle of a block takes the pool's lock.
class BlockRef {
 public:
  BlockRef() = default;
  BlockRef(const BlockRef& other);
  BlockRef(BlockRef&& other) noexcept;
  BlockRef& operator=(BlockRef other) noexcept;
  ~BlockRef();

  explicit operator bool() const { return pool_ != nullptr; }
  // Index of the block in the pool.
  uint32_t index() const { return index_; }
  // The rows of the target groups: [layers][K, V][kv_heads][block_tokens]
  // [head_dim].
  std::span<std::byte> bytes() const;
  // Those of the draft groups, right behind them; empty if there are none.
  std::span<std::byte> draft_bytes() const;
  // Whether the draft rows are right wherever the target rows are. False for a
  // new block; a primed block stays so until it is allocated again.
  bool primed() const;
  // By the one owner of a block whose rows are not there yet, or who has just
  // filled them.
  void MarkPrimed() const;
  // No other handle to this block exists now: dropping this one makes the
  // block available. False for an empty handle.
  bool unique() const;

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, uint32_t index) : pool_(pool), index_(index) {}
  BlockPool* pool_ = nullptr;
  uint32_t index_ = 0;
};

// Drops the handles past the first `keep`, last block first, so that of a
// prefix whose blocks become cached the tail is evicted before the head (a
// tail without its head can never be matched).
void ReleaseTailFirst(std::vector<BlockRef>* blocks, size_t keep = 0);

struct BlockPoolStats {
  uint64_t total = 0;
  uint64_t held = 0;
  uint64_t cached = 0;  // indexed, without a reader
  uint64_t free = 0;
  uint64_t evictions = 0;  // since start
};

// Thread-safe.
class BlockPool {
 public:
  struct Options {
    uint64_t block_bytes = 0;  // of the target groups
    uint32_t blocks = 0;
    uint32_t block_tokens = 64;
    uint64_t draft_bytes = 0;  // of the draft groups
  };

  // Maps the whole arena at once. Errors: kInvalidArgument (a zero option),
  // kResourceExhausted (the mapping fails).
  static absl::StatusOr<std::unique_ptr<BlockPool>> Create(
      const Options& options);
  ~BlockPool();

  // `count` blocks with unspecified contents, evicting cached blocks in LRU
  // order if need be. All or none. Errors: kResourceExhausted.
  absl::StatusOr<std::vector<BlockRef>> TryAllocate(uint32_t count);

  // Blocks for the longest run of leading `keys`; moves them to the young end.
  std::vector<BlockRef> Match(std::span<const kvstore::BlockKey> keys);

  // As Match, only counting; touches nothing. `keys` may start in the middle
  // of a chain: a key names all tokens before its block too.
  uint32_t CountMatch(std::span<const kvstore::BlockKey> keys) const;

  // Makes a full block findable. If another block is indexed under `key`
  // already, that one stays (both hold the same bits); a block keeps the first
  // key it got. An empty handle is ignored.
  void Index(const kvstore::BlockKey& key, const BlockRef& block);

  // Forgets every cached block that nobody holds. Returns how many.
  uint64_t DropCached();

  BlockPoolStats Stats() const;
  // Free plus cached: what TryAllocate could give now.
  uint32_t Available() const;
  uint32_t block_tokens() const;
  uint64_t block_bytes() const;
  uint64_t draft_bytes() const;
  // From one block to the next: both of these.
  uint64_t stride() const;
  // Base of the arena; block i starts at base + i * stride.
  std::byte* arena() const;

 private:
  friend class BlockRef;
  struct State;
  explicit BlockPool(std::unique_ptr<State> state);
  void Ref(uint32_t index);
  void Unref(uint32_t index);
  const std::unique_ptr<State> state_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_CACHE_BLOCK_POOL_H_
