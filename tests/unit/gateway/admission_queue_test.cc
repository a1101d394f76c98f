#include "gateway/admission/admission_queue.h"

#include <gtest/gtest.h>

#include "gateway/admission/admission_gate.h"
#include "services/base/error_details.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/manual_clock.h"

namespace baton::gateway {
namespace {

using Verdict = AdmissionQueue::Verdict;

TEST(AdmissionQueueTest, AdmitsThenQueuesThenRefuses) {
  AdmissionQueue queue({2, 1});
  const absl::Duration now;
  EXPECT_EQ(queue.Enter(1, now), Verdict::kAdmitted);
  EXPECT_EQ(queue.Enter(2, now), Verdict::kAdmitted);
  EXPECT_EQ(queue.Enter(3, now), Verdict::kQueued);
  EXPECT_EQ(queue.Enter(4, now), Verdict::kRefused);
  EXPECT_EQ(queue.inflight(), 2u);
  EXPECT_EQ(queue.queued(), 1u);
}

TEST(AdmissionQueueTest, AdmitsInOrderOfArrival) {
  AdmissionQueue queue({1, 3});
  const absl::Duration now;
  for (AdmissionQueue::Ticket ticket : {1, 2, 3}) queue.Enter(ticket, now);
  EXPECT_EQ(queue.Leave(1, now), 2u);
  EXPECT_EQ(queue.Leave(2, now), 3u);
  EXPECT_EQ(queue.Leave(3, now), std::nullopt);
  EXPECT_EQ(queue.inflight(), 0u);
}

TEST(AdmissionQueueTest, OneThatGaveUpIsPassedOver) {
  AdmissionQueue queue({1, 3});
  const absl::Duration now;
  for (AdmissionQueue::Ticket ticket : {1, 2, 3}) queue.Enter(ticket, now);
  EXPECT_EQ(queue.Leave(2, now), std::nullopt);
  EXPECT_EQ(queue.Leave(1, now), 3u);
}

TEST(AdmissionQueueTest, LeavingTwiceFreesOnePlace) {
  AdmissionQueue queue({1, 3});
  const absl::Duration now;
  for (AdmissionQueue::Ticket ticket : {1, 2, 3}) queue.Enter(ticket, now);
  EXPECT_EQ(queue.Leave(1, now), 2u);
  EXPECT_EQ(queue.Leave(1, now), std::nullopt);
  EXPECT_EQ(queue.inflight(), 1u);
}

TEST(AdmissionQueueTest, HintGrowsWithTheQueueAndTheHoldingTime) {
  AdmissionQueue queue({1, 100});
  absl::Duration now;
  EXPECT_EQ(queue.RetryHint(), absl::Seconds(1));
  for (AdmissionQueue::Ticket ticket = 1; ticket <= 40; ++ticket) {
    queue.Enter(ticket, now);
  }
  EXPECT_GE(queue.RetryHint(), absl::Seconds(39));
  now += absl::Seconds(100);
  queue.Leave(1, now);
  EXPECT_EQ(queue.RetryHint(), absl::Seconds(60)) << "at most a minute";
}

class AdmissionGateTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("test");
  AdmissionGate gate_{{1, 1}, &clock_, metrics_.get()};
};

TEST_F(AdmissionGateTest, CallsTheNextWhenAPlaceIsFree) {
  int first = 0;
  int second = 0;
  auto a = gate_.Enter([&] { ++first; });
  auto b = gate_.Enter([&] { ++second; });
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  gate_.Leave(*a);
  EXPECT_EQ(second, 1);
}

TEST_F(AdmissionGateTest, FullQueueSaysWhyAndWhenToComeBack) {
  ASSERT_TRUE(gate_.Enter([] {}).ok());
  ASSERT_TRUE(gate_.Enter([] {}).ok());
  const auto refused = gate_.Enter([] { FAIL() << "was refused"; });
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(ErrorReason(refused.status()), "queue_full");
  EXPECT_TRUE(RetryAfter(refused.status()).has_value());
  EXPECT_NE(metrics_->Exposition().find(
                "baton_admission_rejections_total{reason=\"queue_full\"} 1"),
            std::string::npos);
}

TEST_F(AdmissionGateTest, ClosedRefusesTheNewAndKeepsTheOld) {
  auto a = gate_.Enter([] {});
  bool admitted = false;
  auto b = gate_.Enter([&] { admitted = true; });
  gate_.Close();
  EXPECT_EQ(ErrorReason(gate_.Enter([] {}).status()), "draining");
  gate_.Leave(*a);
  EXPECT_TRUE(admitted);
}

TEST_F(AdmissionGateTest, QueuedOneThatLeavesIsNeverCalled) {
  auto a = gate_.Enter([] {});
  auto b = gate_.Enter([] { FAIL() << "had left"; });
  gate_.Leave(*b);
  gate_.Leave(*a);
  EXPECT_EQ(gate_.inflight(), 0u);
}

}  // namespace
}  // namespace baton::gateway
