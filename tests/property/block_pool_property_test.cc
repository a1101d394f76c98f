// BlockPool against a model that keeps everything in lists.
#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/cache/block_pool.h"

namespace baton::worker {
namespace {

constexpr uint32_t kBlocks = 12;

kvstore::BlockKey Key(int i) {
  const std::string text = std::to_string(i);
  return kvstore::Sha256(absl::string_view(text.data(), text.size()));
}

struct ModelPool {
  std::map<uint32_t, int> handles;  // block → count, absent if none
  std::map<int, uint32_t> index;    // key → block
  std::list<uint32_t> cached;       // oldest first
  uint64_t evictions = 0;

  bool Indexed(uint32_t block) const {
    return std::any_of(index.begin(), index.end(),
                       [&](const auto& e) { return e.second == block; });
  }
  uint32_t Free() const {
    return kBlocks - static_cast<uint32_t>(handles.size() + cached.size());
  }
  void Drop(uint32_t block) {
    if (--handles[block] > 0) return;
    handles.erase(block);
    if (Indexed(block)) cached.push_back(block);
  }
  void Allocate(uint32_t count) {
    for (uint32_t free = Free(); free < count; ++free) {
      const uint32_t block = cached.front();
      cached.pop_front();
      std::erase_if(index, [&](const auto& e) { return e.second == block; });
      ++evictions;
    }
  }
  size_t CountMatch(const std::vector<int>& keys) const {
    size_t n = 0;
    while (n < keys.size() && index.contains(keys[n])) ++n;
    return n;
  }
};

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed)
      : random_(seed),
        pool_(*BlockPool::Create({.block_bytes = 8, .blocks = kBlocks})) {}

  void Operations(int count) {
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      switch (Below(7)) {
        case 0:
        case 1:
          Allocate();
          break;
        case 2:
          Copy();
          break;
        case 3:
          Drop();
          Drop();
          break;
        case 4:
          Index();
          break;
        case 5:
          Match();
          break;
        case 6:
          if (Below(20) == 0) DropCached();
          break;
      }
      Compare();
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % n); }

  void Allocate() {
    const uint32_t count = Below(4);
    auto got = pool_->TryAllocate(count);
    ASSERT_EQ(got.ok(), count <= model_.Free() + model_.cached.size());
    if (!got.ok()) return;
    model_.Allocate(count);
    ASSERT_EQ(got->size(), count);
    for (BlockRef& ref : *got) {
      ASSERT_FALSE(model_.handles.contains(ref.index()));
      ASSERT_FALSE(model_.Indexed(ref.index()));
      model_.handles[ref.index()] = 1;
      refs_.push_back(std::move(ref));
    }
  }
  void Copy() {
    if (refs_.empty() || refs_.size() > 40) return;
    BlockRef copy = refs_[Below(static_cast<int>(refs_.size()))];
    ++model_.handles[copy.index()];
    refs_.push_back(std::move(copy));
  }
  void Drop() {
    if (refs_.empty()) return;
    const int i = Below(static_cast<int>(refs_.size()));
    const uint32_t block = refs_[i].index();
    refs_.erase(refs_.begin() + i);
    model_.Drop(block);
  }
  void Index() {
    if (refs_.empty()) return;
    const BlockRef& ref = refs_[Below(static_cast<int>(refs_.size()))];
    const int key = Below(10);
    pool_->Index(Key(key), ref);
    if (!model_.Indexed(ref.index())) model_.index.emplace(key, ref.index());
  }
  void Match() {
    std::vector<int> keys;
    std::vector<kvstore::BlockKey> real;
    for (int n = Below(4); n >= 0; --n) {
      keys.push_back(Below(10));
      real.push_back(Key(keys.back()));
    }
    const size_t expected = model_.CountMatch(keys);
    ASSERT_EQ(pool_->CountMatch(real), expected);
    std::vector<BlockRef> found = pool_->Match(real);
    ASSERT_EQ(found.size(), expected);
    for (size_t i = 0; i < expected; ++i) {
      ASSERT_EQ(found[i].index(), model_.index[keys[i]]);
      ++model_.handles[found[i].index()];
      model_.cached.remove(found[i].index());
      refs_.push_back(std::move(found[i]));
    }
  }
  void DropCached() {
    ASSERT_EQ(pool_->DropCached(), model_.cached.size());
    for (uint32_t block : model_.cached) {
      std::erase_if(model_.index,
                    [&](const auto& e) { return e.second == block; });
    }
    model_.cached.clear();
  }
  void Compare() {
    const BlockPoolStats stats = pool_->Stats();
    ASSERT_EQ(stats.held, model_.handles.size());
    ASSERT_EQ(stats.cached, model_.cached.size());
    ASSERT_EQ(stats.free, model_.Free());
    ASSERT_EQ(stats.evictions, model_.evictions);
    ASSERT_EQ(pool_->Available(), model_.Free() + model_.cached.size());
    for (const BlockRef& ref : refs_) {
      ASSERT_EQ(ref.unique(), model_.handles[ref.index()] == 1);
    }
    for (int key = 0; key < 10; ++key) {
      ASSERT_EQ(pool_->CountMatch(std::vector{Key(key)}) == 1,
                model_.index.contains(key));
    }
  }

  std::mt19937_64 random_;
  std::unique_ptr<BlockPool> pool_;
  std::vector<BlockRef> refs_;
  ModelPool model_;
};

TEST(BlockPoolProperty, BehavesAsTheModel) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomRun(seed).Operations(1000);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace baton::worker
