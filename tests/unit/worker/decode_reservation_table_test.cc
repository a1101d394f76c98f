#include <gtest/gtest.h>

#include "services/base/error_details.h"
#include "services/base/executor.h"
#include "tests/support/manual_clock.h"
#include "worker/decode/reservation_table.h"

namespace baton::worker {
namespace {

class ReservationTableTest : public ::testing::Test {
 protected:
  static BlockPoolStats Pool(uint64_t free, uint64_t cached = 0) {
    BlockPoolStats stats;
    stats.total = 100;
    stats.free = free;
    stats.cached = cached;
    stats.held = 100 - free - cached;
    return stats;
  }
  absl::StatusOr<ReservationId> Reserve(uint32_t blocks, BlockPoolStats pool) {
    return table_.TryReserve(blocks, pool, [this] { ++expired_; });
  }

  ManualClock clock_;
  // Its timer never comes within a test: reaping is by hand.
  ThreadPoolExecutor timers_{ThreadPoolExecutor::Options{1}};
  ReservationTable table_{{3, absl::Hours(1)}, &clock_, &timers_};
  int expired_ = 0;
};

TEST_F(ReservationTableTest, SlotsAreCountedUntilTheEnd) {
  const auto first = Reserve(1, Pool(100));
  const auto second = Reserve(1, Pool(100));
  const auto third = Reserve(1, Pool(100));
  ASSERT_TRUE(third.ok());
  const auto fourth = Reserve(1, Pool(100));
  EXPECT_TRUE(absl::IsResourceExhausted(fourth.status()));
  EXPECT_TRUE(RetryAfter(fourth.status()).has_value());
  // Started ones keep their slot.
  EXPECT_TRUE(table_.Start(*first));
  EXPECT_FALSE(Reserve(1, Pool(100)).ok());
  table_.End(*first);
  table_.End(*first);
  EXPECT_EQ(table_.size(), 2u);
  EXPECT_TRUE(Reserve(1, Pool(100)).ok());
  EXPECT_NE(*second, *third);
}

TEST_F(ReservationTableTest, RoomIsKeptForThoseThatHaveNotStarted) {
  const auto first = Reserve(6, Pool(4, 4));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Reserve(3, Pool(4, 4)).status()));
  EXPECT_TRUE(Reserve(2, Pool(4, 4)).ok());
  // Once started, its blocks are held, so the pool itself says what is left.
  EXPECT_TRUE(table_.Start(*first));
  EXPECT_TRUE(Reserve(1, Pool(3)).ok());
}

TEST_F(ReservationTableTest, OnlyUnstartedOnesExpire) {
  const auto waits = Reserve(1, Pool(100));
  const auto runs = Reserve(1, Pool(100));
  EXPECT_TRUE(table_.Start(*runs));
  clock_.Advance(absl::Minutes(59));
  table_.Reap();
  EXPECT_EQ(expired_, 0);
  clock_.Advance(absl::Minutes(2));
  table_.Reap();
  table_.Reap();
  EXPECT_EQ(expired_, 1);
  EXPECT_EQ(table_.size(), 1u);
  EXPECT_FALSE(table_.Start(*waits));
}

TEST_F(ReservationTableTest, ExpiryMayCallBackIntoTheTable) {
  absl::StatusOr<ReservationId> id;
  id = table_.TryReserve(1, Pool(100), [&] {
    table_.End(*id);
    ++expired_;
  });
  clock_.Advance(absl::Hours(2));
  table_.Reap();
  EXPECT_EQ(expired_, 1);
}

}  // namespace
}  // namespace baton::worker
