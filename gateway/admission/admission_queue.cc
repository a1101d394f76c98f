#include "gateway/admission/admission_queue.h"

#include <algorithm>

namespace baton::gateway {

AdmissionQueue::Verdict AdmissionQueue::Enter(Ticket ticket,
                                              absl::Duration now) {
  if (running_.size() < options_.max_inflight) {
    running_[ticket] = now;
    return Verdict::kAdmitted;
  }
  if (waiting_.size() >= options_.max_queued) return Verdict::kRefused;
  waiting_.push_back(ticket);
  return Verdict::kQueued;
}

std::optional<AdmissionQueue::Ticket> AdmissionQueue::Leave(
    Ticket ticket, absl::Duration now) {
  auto running = running_.find(ticket);
  if (running == running_.end()) {
    auto waiting = std::find(waiting_.begin(), waiting_.end(), ticket);
    if (waiting != waiting_.end()) waiting_.erase(waiting);
    return std::nullopt;
  }
  mean_held_ = mean_held_ * 0.9 + (now - running->second) * 0.1;
  running_.erase(running);
  if (waiting_.empty()) return std::nullopt;
  const Ticket next = waiting_.front();
  waiting_.pop_front();
  running_[next] = now;
  return next;
}

absl::Duration AdmissionQueue::RetryHint() const {
  const double rounds = (static_cast<double>(waiting_.size()) + 1) /
                        std::max<uint32_t>(1, options_.max_inflight);
  return std::clamp(mean_held_ * rounds, absl::Seconds(1), absl::Seconds(60));
}

}  // namespace baton::gateway
