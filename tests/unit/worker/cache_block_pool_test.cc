#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/cache/block_pool.h"

namespace baton::worker {
namespace {

kvstore::BlockKey Key(int i) {
  const std::string text = std::to_string(i);
  return kvstore::Sha256(absl::string_view(text.data(), text.size()));
}

std::unique_ptr<BlockPool> Pool(uint32_t blocks) {
  return *BlockPool::Create({.block_bytes = 32, .blocks = blocks});
}

TEST(BlockPoolTest, RefusesAnEmptyPoolAndOneThatCannotBeMapped) {
  EXPECT_EQ(BlockPool::Create({.block_bytes = 0, .blocks = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BlockPool::Create({.block_bytes = 1, .blocks = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      BlockPool::Create({.block_bytes = ~0ull, .blocks = 2}).status().code(),
      absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(BlockPool::Create({.block_bytes = 1ull << 40, .blocks = 1u << 20})
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(BlockPoolTest, AllocatesAllOrNone) {
  auto pool = Pool(3);
  auto two = pool->TryAllocate(2);
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(pool->TryAllocate(2).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool->Stats().held, 2u);
  EXPECT_TRUE(pool->TryAllocate(1).ok());
}

TEST(BlockPoolTest, BlocksAreDistinctPartsOfTheArena) {
  auto pool = Pool(4);
  auto blocks = *pool->TryAllocate(4);
  for (const BlockRef& block : blocks) {
    EXPECT_EQ(block.bytes().size(), 32u);
    EXPECT_EQ(block.bytes().data(), pool->arena() + 32 * block.index());
    std::memset(block.bytes().data(), static_cast<int>(block.index()), 32);
  }
  for (const BlockRef& block : blocks) {
    EXPECT_EQ(block.bytes()[31], static_cast<std::byte>(block.index()));
  }
}

TEST(BlockPoolTest, ABlockIsHeldUntilItsLastHandleGoes) {
  auto pool = Pool(1);
  BlockRef a = (*pool->TryAllocate(1))[0];
  EXPECT_TRUE(a.unique());
  BlockRef b = a;
  EXPECT_FALSE(a.unique());
  a = BlockRef();
  EXPECT_EQ(pool->Available(), 0u);
  BlockRef c = std::move(b);
  EXPECT_FALSE(b);  // NOLINT: a moved-from handle is empty
  EXPECT_TRUE(c.unique());
  c = c;  // NOLINT: self-assignment keeps the handle
  EXPECT_EQ(pool->Available(), 0u);
  c = BlockRef();
  EXPECT_EQ(pool->Available(), 1u);
}

TEST(BlockPoolTest, MatchGivesTheLongestLeadingRun) {
  auto pool = Pool(4);
  auto blocks = *pool->TryAllocate(3);
  pool->Index(Key(0), blocks[0]);
  pool->Index(Key(1), blocks[1]);
  pool->Index(Key(3), blocks[2]);
  const std::vector<kvstore::BlockKey> keys = {Key(0), Key(1), Key(2), Key(3)};
  EXPECT_EQ(pool->CountMatch(keys), 2u);
  auto found = pool->Match(keys);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].index(), blocks[0].index());
  EXPECT_EQ(found[1].index(), blocks[1].index());
}

TEST(BlockPoolTest, IndexedBlocksKeepTheirContentsUntilEvictedOldestFirst) {
  auto pool = Pool(3);
  auto blocks = *pool->TryAllocate(3);
  for (int i = 0; i < 3; ++i) pool->Index(Key(i), blocks[i]);
  blocks[1] = BlockRef();
  blocks[0] = BlockRef();
  blocks[2] = BlockRef();
  EXPECT_EQ(pool->Stats().cached, 3u);
  // A match makes block 1 the youngest.
  const std::vector<kvstore::BlockKey> one = {Key(1)};
  pool->Match(one).clear();
  auto taken = *pool->TryAllocate(2);
  EXPECT_EQ(pool->Stats().evictions, 2u);
  EXPECT_EQ(pool->CountMatch(one), 1u);
  EXPECT_EQ(pool->CountMatch(std::vector{Key(0)}), 0u);
  EXPECT_EQ(pool->CountMatch(std::vector{Key(2)}), 0u);
}

TEST(BlockPoolTest, ReleasesAPrefixTailFirst) {
  auto pool = Pool(3);
  auto blocks = *pool->TryAllocate(3);
  const std::vector<kvstore::BlockKey> keys = {Key(0), Key(1), Key(2)};
  for (int i = 0; i < 3; ++i) pool->Index(keys[i], blocks[i]);
  ReleaseTailFirst(&blocks, 1);
  EXPECT_EQ(blocks.size(), 1u);
  ReleaseTailFirst(&blocks);
  auto taken = *pool->TryAllocate(1);
  EXPECT_EQ(pool->CountMatch(keys), 2u);
}

TEST(BlockPoolTest, TheFirstBlockOfAKeyAndTheFirstKeyOfABlockStay) {
  auto pool = Pool(2);
  auto blocks = *pool->TryAllocate(2);
  pool->Index(Key(0), blocks[0]);
  pool->Index(Key(0), blocks[1]);
  pool->Index(Key(1), blocks[0]);
  pool->Index(Key(2), BlockRef());
  auto found = pool->Match(std::vector{Key(0)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].index(), blocks[0].index());
  EXPECT_EQ(pool->CountMatch(std::vector{Key(1)}), 0u);
  blocks.clear();
  found.clear();
  EXPECT_EQ(pool->Stats().cached, 1u);
  EXPECT_EQ(pool->Stats().free, 1u);
}

TEST(BlockPoolTest, DropCachedSparesHeldBlocks) {
  auto pool = Pool(2);
  auto blocks = *pool->TryAllocate(2);
  pool->Index(Key(0), blocks[0]);
  pool->Index(Key(1), blocks[1]);
  blocks[1] = BlockRef();
  EXPECT_EQ(pool->DropCached(), 1u);
  EXPECT_EQ(pool->CountMatch(std::vector{Key(0)}), 1u);
  EXPECT_EQ(pool->CountMatch(std::vector{Key(1)}), 0u);
  EXPECT_EQ(pool->Stats().free, 1u);
  EXPECT_EQ(pool->Stats().evictions, 0u);
}

TEST(BlockPoolTest, HandlesMayBeCopiedAndDroppedOnManyThreads) {
  auto pool = Pool(4);
  auto blocks = *pool->TryAllocate(2);
  pool->Index(Key(0), blocks[0]);
  pool->Index(Key(1), blocks[1]);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&pool, t] {
        const std::vector<kvstore::BlockKey> keys = {Key(0), Key(1)};
        for (int i = 0; i < 2000; ++i) {
          auto found = pool->Match(keys);
          auto copy = found;
          found.clear();
          if (i % 3 == t % 3) auto taken = pool->TryAllocate(1);
        }
      });
    }
    blocks.clear();
  }
  const BlockPoolStats stats = pool->Stats();
  EXPECT_EQ(stats.held, 0u);
  EXPECT_EQ(stats.cached + stats.free, 4u);
}

}  // namespace
}  // namespace baton::worker
