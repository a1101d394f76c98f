#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "kvstore/store/memory_arena.h"

namespace baton::kvstore {
namespace {

constexpr uint64_t kPage = 4096;

MemoryArena::Options Pages(uint64_t budget, uint64_t idle) {
  return {budget * kPage, idle * kPage};
}

TEST(MemoryArenaTest, RefusesBeyondItsBudgetAndRecovers) {
  MemoryArena arena(Pages(4, 4));
  auto a = arena.Allocate(2 * kPage);
  auto b = arena.Allocate(kPage + 1);  // takes two pages
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ((*b)->bytes().size(), kPage + 1);
  EXPECT_EQ(arena.live_bytes(), 4 * kPage);
  EXPECT_EQ(arena.Allocate(1).status().code(),
            absl::StatusCode::kResourceExhausted);
  a->reset();
  EXPECT_TRUE(arena.Allocate(2 * kPage).ok());
}

TEST(MemoryArenaTest, IdleRoomOfOneSizeGivesWayToAnother) {
  MemoryArena arena(Pages(4, 4));
  arena.Allocate(3 * kPage)->reset();
  EXPECT_EQ(arena.mapped_bytes(), 3 * kPage);
  auto big = arena.Allocate(4 * kPage);
  ASSERT_TRUE(big.ok());
  std::fill((*big)->bytes().begin(), (*big)->bytes().end(), std::byte{7});
  EXPECT_EQ(arena.mapped_bytes(), 4 * kPage);
}

TEST(MemoryArenaTest, ReturnsWhatExceedsTheIdleBound) {
  MemoryArena arena(Pages(100, 2));
  std::vector<std::shared_ptr<Payload>> payloads;
  for (int i = 0; i < 50; ++i) payloads.push_back(*arena.Allocate(kPage));
  EXPECT_EQ(arena.mapped_bytes(), 50 * kPage);
  payloads.clear();
  EXPECT_EQ(arena.live_bytes(), 0u);
  EXPECT_EQ(arena.mapped_bytes(), 2 * kPage);
}

TEST(MemoryArenaTest, PayloadsAreDisjoint) {
  MemoryArena arena(Pages(64, 8));
  std::vector<std::shared_ptr<Payload>> payloads;
  for (int i = 0; i < 8; ++i) {
    payloads.push_back(*arena.Allocate(kPage * (1 + i % 3)));
    std::fill(payloads[i]->bytes().begin(), payloads[i]->bytes().end(),
              static_cast<std::byte>(i));
  }
  for (int i = 0; i < 8; ++i) {
    for (std::byte byte : payloads[i]->bytes()) {
      ASSERT_EQ(byte, static_cast<std::byte>(i));
    }
  }
}

TEST(MemoryArenaTest, APayloadOutlivesItsArena) {
  std::optional<MemoryArena> arena(Pages(4, 4));
  std::shared_ptr<Payload> payload = *arena->Allocate(kPage);
  arena.reset();
  payload->bytes()[kPage - 1] = std::byte{1};
  EXPECT_EQ(payload->bytes()[kPage - 1], std::byte{1});
}

TEST(MemoryArenaTest, RefusesImpossibleSizes) {
  MemoryArena arena(Pages(4, 4));
  EXPECT_EQ(arena.Allocate(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(arena.Allocate(~uint64_t{0}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_GE(arena.Footprint(~uint64_t{0} - 1), ~uint64_t{0} - 1);
}

}  // namespace
}  // namespace baton::kvstore
