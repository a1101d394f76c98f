#include "worker/cache/block_pool.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "services/base/checked_math.h"
#include "services/base/mutex.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

constexpr uint32_t kNone = 0xffffffff;

// What the pool knows of a block beside its reference count.
struct BlockEntry {
  bool indexed = false;
  kvstore::BlockKey key;  // meaningful if indexed
  // Neighbours in the LRU list; meaningful while cached.
  uint32_t older = kNone;
  uint32_t younger = kNone;
};

}  // namespace

// A block's count goes between 0 and 1 only under the mutex, so that under the
// mutex "count is 0" and "is free or cached" are the same thing. Above 1 it
// moves without the lock.
struct BlockPool::State {
  Options options;
  std::byte* arena = nullptr;
  size_t arena_bytes = 0;
  std::unique_ptr<std::atomic<uint32_t>[]> counts;
  std::unique_ptr<std::atomic<bool>[]> primed;

  mutable Mutex mutex;
  std::vector<BlockEntry> entries ABSL_GUARDED_BY(mutex);
  std::vector<uint32_t> free ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<kvstore::BlockKey, uint32_t> index ABSL_GUARDED_BY(mutex);
  uint32_t oldest ABSL_GUARDED_BY(mutex) = kNone;
  uint32_t youngest ABSL_GUARDED_BY(mutex) = kNone;
  uint32_t cached ABSL_GUARDED_BY(mutex) = 0;
  uint64_t evictions ABSL_GUARDED_BY(mutex) = 0;

  ~State() {
    if (arena != nullptr) munmap(arena, arena_bytes);
  }

  void LinkYoungestLocked(uint32_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    entries[i].older = youngest;
    entries[i].younger = kNone;
    (youngest == kNone ? oldest : entries[youngest].younger) = i;
    youngest = i;
    ++cached;
  }

  void UnlinkLocked(uint32_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const BlockEntry& entry = entries[i];
    (entry.older == kNone ? oldest : entries[entry.older].younger) =
        entry.younger;
    (entry.younger == kNone ? youngest : entries[entry.younger].older) =
        entry.older;
    --cached;
  }

  // Frees the cached block that was left alone for longest.
  void ForgetOldestLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const uint32_t i = oldest;
    UnlinkLocked(i);
    index.erase(entries[i].key);
    entries[i].indexed = false;
    free.push_back(i);
  }
};

BlockRef::BlockRef(const BlockRef& other)
    : pool_(other.pool_), index_(other.index_) {
  if (pool_ != nullptr) pool_->Ref(index_);
}

BlockRef::BlockRef(BlockRef&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}

BlockRef& BlockRef::operator=(BlockRef other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(index_, other.index_);
  return *this;
}

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->Unref(index_);
}

std::span<std::byte> BlockRef::bytes() const {
  if (pool_ == nullptr) return {};
  return {pool_->arena() + index_ * pool_->stride(),
          static_cast<size_t>(pool_->block_bytes())};
}

std::span<std::byte> BlockRef::draft_bytes() const {
  if (pool_ == nullptr) return {};
  return {bytes().data() + pool_->block_bytes(),
          static_cast<size_t>(pool_->draft_bytes())};
}

bool BlockRef::primed() const {
  return pool_ != nullptr && pool_->state_->primed[index_].load();
}

void BlockRef::MarkPrimed() const { pool_->state_->primed[index_] = true; }

bool BlockRef::unique() const {
  return pool_ != nullptr && pool_->state_->counts[index_].load() == 1;
}

void ReleaseTailFirst(std::vector<BlockRef>* blocks, size_t keep) {
  while (blocks->size() > keep) blocks->pop_back();
}

BlockPool::BlockPool(std::unique_ptr<State> state) : state_(std::move(state)) {}

BlockPool::~BlockPool() = default;

absl::StatusOr<std::unique_ptr<BlockPool>> BlockPool::Create(
    const Options& options) {
  if (options.block_bytes == 0 || options.blocks == 0 ||
      options.block_tokens == 0) {
    return absl::InvalidArgumentError(
        "a block pool needs at least one block of at least one byte and token");
  }
  const auto stride = CheckedAdd(options.block_bytes, options.draft_bytes);
  const auto bytes =
      stride ? CheckedMul(*stride, options.blocks) : std::nullopt;
  if (!bytes || options.blocks == kNone) {
    return absl::ResourceExhaustedError("KV memory: size overflows");
  }
  void* arena = mmap(nullptr, *bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV memory: cannot map ", *bytes, " bytes: ", std::strerror(errno)));
  }
  // Attention reads blocks at all places of it. A wish: it may go unheard.
  madvise(arena, *bytes, MADV_HUGEPAGE);
  auto state = std::make_unique<State>();
  state->options = options;
  state->arena = static_cast<std::byte*>(arena);
  state->arena_bytes = *bytes;
  state->counts = std::make_unique<std::atomic<uint32_t>[]>(options.blocks);
  state->primed = std::make_unique<std::atomic<bool>[]>(options.blocks);
  {
    MutexLock lock(&state->mutex);
    state->entries.resize(options.blocks);
    // Handed out from the back: low addresses first.
    for (uint32_t i = options.blocks; i-- > 0;) state->free.push_back(i);
  }
  return std::unique_ptr<BlockPool>(new BlockPool(std::move(state)));
}

absl::StatusOr<std::vector<BlockRef>> BlockPool::TryAllocate(uint32_t count) {
  State& s = *state_;
  std::vector<BlockRef> blocks;
  blocks.reserve(count);
  MutexLock lock(&s.mutex);
  if (count > s.free.size() + s.cached) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV blocks: ", count, " wanted, ",
                     s.free.size() + s.cached, " available"));
  }
  for (uint32_t n = 0; n < count; ++n) {
    if (s.free.empty()) {
      s.ForgetOldestLocked();
      ++s.evictions;
    }
    const uint32_t i = s.free.back();
    s.free.pop_back();
    s.counts[i].store(1);
    s.primed[i].store(false);
    blocks.push_back(BlockRef(this, i));
  }
  return blocks;
}

std::vector<BlockRef> BlockPool::Match(
    std::span<const kvstore::BlockKey> keys) {
  State& s = *state_;
  std::vector<BlockRef> blocks;
  MutexLock lock(&s.mutex);
  for (const kvstore::BlockKey& key : keys) {
    const auto it = s.index.find(key);
    if (it == s.index.end()) break;
    const uint32_t i = it->second;
    if (s.counts[i].fetch_add(1) == 0) s.UnlinkLocked(i);
    blocks.push_back(BlockRef(this, i));
  }
  return blocks;
}

uint32_t BlockPool::CountMatch(std::span<const kvstore::BlockKey> keys) const {
  const State& s = *state_;
  MutexLock lock(&s.mutex);
  uint32_t count = 0;
  while (count < keys.size() && s.index.contains(keys[count])) ++count;
  return count;
}

void BlockPool::Index(const kvstore::BlockKey& key, const BlockRef& block) {
  if (!block) return;
  State& s = *state_;
  MutexLock lock(&s.mutex);
  BlockEntry& entry = s.entries[block.index()];
  if (entry.indexed || !s.index.try_emplace(key, block.index()).second) return;
  entry.indexed = true;
  entry.key = key;
}

uint64_t BlockPool::DropCached() {
  State& s = *state_;
  MutexLock lock(&s.mutex);
  const uint64_t dropped = s.cached;
  while (s.cached > 0) s.ForgetOldestLocked();
  return dropped;
}

BlockPoolStats BlockPool::Stats() const {
  const State& s = *state_;
  MutexLock lock(&s.mutex);
  BlockPoolStats stats;
  stats.total = s.options.blocks;
  stats.cached = s.cached;
  stats.free = s.free.size();
  stats.held = stats.total - stats.cached - stats.free;
  stats.evictions = s.evictions;
  return stats;
}

uint32_t BlockPool::Available() const {
  const State& s = *state_;
  MutexLock lock(&s.mutex);
  return static_cast<uint32_t>(s.free.size()) + s.cached;
}

uint32_t BlockPool::block_tokens() const {
  return state_->options.block_tokens;
}

uint64_t BlockPool::block_bytes() const { return state_->options.block_bytes; }

uint64_t BlockPool::draft_bytes() const { return state_->options.draft_bytes; }

uint64_t BlockPool::stride() const { return block_bytes() + draft_bytes(); }

std::byte* BlockPool::arena() const { return state_->arena; }

// The caller holds a handle, so the count is at least 1 and stays so.
void BlockPool::Ref(uint32_t index) { state_->counts[index].fetch_add(1); }

void BlockPool::Unref(uint32_t index) {
  State& s = *state_;
  std::atomic<uint32_t>& count = s.counts[index];
  uint32_t seen = count.load();
  while (seen > 1) {
    if (count.compare_exchange_weak(seen, seen - 1)) return;
  }
  MutexLock lock(&s.mutex);
  if (count.fetch_sub(1) != 1) return;  // a Match came in between
  if (s.entries[index].indexed) {
    s.LinkYoungestLocked(index);
  } else {
    s.free.push_back(index);
  }
}

}  // namespace baton::worker
