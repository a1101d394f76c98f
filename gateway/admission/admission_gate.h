// The thread-safe shell of the admission queue, with its metrics.
#ifndef BATON_GATEWAY_ADMISSION_ADMISSION_GATE_H_
#define BATON_GATEWAY_ADMISSION_ADMISSION_GATE_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/statusor.h"
#include "gateway/admission/admission_queue.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"
#include "services/telemetry/metrics.h"

namespace baton::gateway {

class AdmissionGate {
 public:
  // Pointers must outlive the gate.
  AdmissionGate(const AdmissionQueue::Options& options, const Clock* clock,
                telemetry::MetricsRegistry* metrics);

  // `admitted` is called once, without a lock held: in this call if there is
  // room, else in the Leave that makes room. Errors: kResourceExhausted
  // "queue_full" with a retry hint; kUnavailable "draining" after Close. Then
  // `admitted` is dropped.
  absl::StatusOr<AdmissionQueue::Ticket> Enter(std::function<void()> admitted);
  // Gives the place back, or leaves the queue. Idempotent.
  void Leave(AdmissionQueue::Ticket ticket);
  // Refuses all new requests. Those inside go on.
  void Close();

  uint32_t inflight() const;
  uint32_t queued() const;

 private:
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  telemetry::Gauge* const waiting_gauge_;
  telemetry::Counter* const rejected_full_;
  telemetry::Counter* const rejected_draining_;

  mutable Mutex mutex_;
  AdmissionQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::map<AdmissionQueue::Ticket, std::function<void()>> callbacks_
      ABSL_GUARDED_BY(mutex_);
  AdmissionQueue::Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ADMISSION_ADMISSION_GATE_H_
