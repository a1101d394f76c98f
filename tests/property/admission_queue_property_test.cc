// The admission queue against a naive model, over random arrivals and leaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "gateway/admission/admission_queue.h"

namespace baton::gateway {
namespace {

TEST(AdmissionQueuePropertyTest, IsAFirstComeBoundedQueue) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const uint32_t max_inflight = 1 + random() % 4;
    const uint32_t max_queued = random() % 4;
    AdmissionQueue queue({max_inflight, max_queued});
    // All that are inside, in order of arrival, and whether each runs.
    std::vector<std::pair<AdmissionQueue::Ticket, bool>> model;
    AdmissionQueue::Ticket last = 0;
    for (int step = 0; step < 500; ++step) {
      const absl::Duration now = absl::Seconds(step);
      const auto running = std::count_if(
          model.begin(), model.end(), [](const auto& e) { return e.second; });
      const auto waiting = static_cast<long>(model.size()) - running;
      if (random() % 2 == 0) {
        const auto verdict = queue.Enter(++last, now);
        if (running < max_inflight) {
          ASSERT_EQ(verdict, AdmissionQueue::Verdict::kAdmitted);
          model.emplace_back(last, true);
        } else if (waiting < max_queued) {
          ASSERT_EQ(verdict, AdmissionQueue::Verdict::kQueued);
          model.emplace_back(last, false);
        } else {
          ASSERT_EQ(verdict, AdmissionQueue::Verdict::kRefused);
        }
      } else {
        const AdmissionQueue::Ticket ticket = 1 + random() % (last + 1);
        const auto next = queue.Leave(ticket, now);
        auto it = std::find_if(model.begin(), model.end(), [&](const auto& e) {
          return e.first == ticket;
        });
        std::optional<AdmissionQueue::Ticket> expected;
        if (it != model.end()) {
          const bool ran = it->second;
          model.erase(it);
          for (auto& [waiter, runs] : model) {
            if (!ran || runs) continue;
            runs = true;
            expected = waiter;
            break;
          }
        }
        ASSERT_EQ(next, expected);
      }
      ASSERT_LE(queue.inflight(), max_inflight);
      ASSERT_LE(queue.queued(), max_queued);
      ASSERT_EQ(queue.inflight() + queue.queued(), model.size());
      ASSERT_GE(queue.RetryHint(), absl::Seconds(1));
      ASSERT_LE(queue.RetryHint(), absl::Seconds(60));
    }
  }
}

}  // namespace
}  // namespace baton::gateway
