#include "gateway/admission/admission_gate.h"

#include <utility>

#include "services/base/error_details.h"

namespace baton::gateway {
namespace {

constexpr char kRejections[] = "baton_admission_rejections_total";
constexpr char kRejectionsHelp[] = "Requests refused before scheduling";

}  // namespace

AdmissionGate::AdmissionGate(const AdmissionQueue::Options& options,
                             const Clock* clock,
                             telemetry::MetricsRegistry* metrics)
    : clock_(clock),
      waiting_gauge_(metrics->GetGauge("baton_requests_waiting",
                                       "Requests queued, not yet scheduled")),
      rejected_full_(metrics->GetCounter(kRejections, kRejectionsHelp,
                                         {{"reason", "queue_full"}})),
      rejected_draining_(metrics->GetCounter(kRejections, kRejectionsHelp,
                                             {{"reason", "draining"}})),
      queue_(options) {}

absl::StatusOr<AdmissionQueue::Ticket> AdmissionGate::Enter(
    std::function<void()> admitted) {
  AdmissionQueue::Ticket ticket = 0;
  {
    MutexLock lock(&mutex_);
    if (closed_) {
      rejected_draining_->Increment();
      return WithRetryAfter(
          WithReason(absl::UnavailableError("the gateway is draining"),
                     "draining"),
          absl::Seconds(5));
    }
    ticket = ++last_ticket_;
    switch (queue_.Enter(ticket, clock_->Monotonic())) {
      case AdmissionQueue::Verdict::kRefused:
        rejected_full_->Increment();
        return WithRetryAfter(
            WithReason(absl::ResourceExhaustedError("the queue is full"),
                       "queue_full"),
            queue_.RetryHint());
      case AdmissionQueue::Verdict::kQueued:
        callbacks_[ticket] = std::move(admitted);
        PublishLocked();
        return ticket;
      case AdmissionQueue::Verdict::kAdmitted:
        break;
    }
  }
  admitted();
  return ticket;
}

void AdmissionGate::Leave(AdmissionQueue::Ticket ticket) {
  std::function<void()> next;
  {
    MutexLock lock(&mutex_);
    callbacks_.erase(ticket);
    auto admitted = queue_.Leave(ticket, clock_->Monotonic());
    if (admitted.has_value()) {
      auto it = callbacks_.find(*admitted);
      next = std::move(it->second);
      callbacks_.erase(it);
    }
    PublishLocked();
  }
  if (next) next();
}

void AdmissionGate::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
}

uint32_t AdmissionGate::inflight() const {
  MutexLock lock(&mutex_);
  return queue_.inflight();
}

uint32_t AdmissionGate::queued() const {
  MutexLock lock(&mutex_);
  return queue_.queued();
}

void AdmissionGate::PublishLocked() { waiting_gauge_->Set(queue_.queued()); }

}  // namespace baton::gateway
