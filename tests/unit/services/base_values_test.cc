#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <thread>

#include "services/base/checked_math.h"
#include "services/base/error_details.h"
#include "services/base/ids.h"
#include "services/base/mutex.h"
#include "services/base/random.h"

namespace baton {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedMathTest, OverflowIsNoValue) {
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(kMax / 3, 3), kMax);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedMul(0, kMax), 0u);
}

TEST(CheckedMathTest, DividesUp) {
  EXPECT_EQ(DivideUp(0, 64), 0u);
  EXPECT_EQ(DivideUp(64, 64), 1u);
  EXPECT_EQ(DivideUp(65, 64), 2u);
}

TEST(ErrorDetailsTest, AStatusCarriesReasonFieldAndDelay) {
  const absl::Status status = WithRetryAfter(
      WithField(WithReason(absl::ResourceExhaustedError("full"), "queue_full"),
                "max_tokens"),
      absl::Milliseconds(1500));
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(ErrorReason(status), "queue_full");
  EXPECT_EQ(ErrorField(status), "max_tokens");
  EXPECT_EQ(RetryAfter(status), absl::Milliseconds(1500));
}

TEST(ErrorDetailsTest, WhatIsNotSetIsEmpty) {
  const absl::Status status = absl::InternalError("x");
  EXPECT_EQ(ErrorReason(status), "");
  EXPECT_EQ(ErrorField(status), "");
  EXPECT_EQ(RetryAfter(status), std::nullopt);
}

TEST(ErrorDetailsTest, AnOkStatusStaysAsItIs) {
  const absl::Status status = WithReason(absl::OkStatus(), "queue_full");
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(ErrorReason(status), "");
}

// An endless wait must not overflow into one that ends at once.
TEST(CondVarTest, WaitsHoweverLongTheTime) {
  Mutex mutex;
  CondVar condition;
  bool set = false;
  std::jthread setter;
  MutexLock lock(&mutex);
  setter = std::jthread([&] {
    MutexLock inner(&mutex);
    set = true;
    condition.SignalAll();
  });
  while (!set) {
    ASSERT_TRUE(condition.WaitWithTimeout(&mutex, absl::InfiniteDuration()));
  }
}

TEST(IdsTest, ZeroIsNone) {
  EXPECT_FALSE(static_cast<bool>(LeaseId()));
  EXPECT_TRUE(static_cast<bool>(LeaseId(1)));
  EXPECT_TRUE(RequestId().empty());
}

TEST(RandomTest, NamesHaveTheirPrefixAndDiffer) {
  std::set<std::string> names;
  for (int i = 0; i < 64; ++i) {
    const std::string name = RandomName("chatcmpl-");
    EXPECT_THAT(name, testing::MatchesRegex("chatcmpl-[0-9a-f]{24}"));
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_NE(RandomIdentity(), 0u);
  }
}

}  // namespace
}  // namespace baton
