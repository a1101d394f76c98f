#include "worker/handoff/admission_gate.h"

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "services/base/error_details.h"

namespace baton::worker {
namespace {

absl::Status Refusal(const char* message, const char* reason) {
  return WithRetryAfter(WithReason(absl::UnavailableError(message), reason),
                        absl::Seconds(1));
}

}  // namespace

void AdmissionGate::Open(const WorkerContext* context) {
  MutexLock lock(&mutex_);
  context_ = context;
}

void AdmissionGate::Drain() {
  MutexLock lock(&mutex_);
  draining_ = true;
}

absl::StatusOr<AdmissionGate::Pass> AdmissionGate::Enter() {
  MutexLock lock(&mutex_);
  if (draining_) return Refusal("this worker is draining", "draining");
  if (context_ == nullptr) {
    return Refusal("the model is still loading", "model_loading");
  }
  ++inside_;
  return Pass(this, context_);
}

const WorkerContext* AdmissionGate::context() const {
  MutexLock lock(&mutex_);
  return context_;
}

bool AdmissionGate::AwaitIdle(absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  MutexLock lock(&mutex_);
  while (inside_ > 0) {
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    idle_.WaitWithTimeout(&mutex_, left);
  }
  return true;
}

uint32_t AdmissionGate::inside() const {
  MutexLock lock(&mutex_);
  return inside_;
}

void AdmissionGate::Leave() {
  MutexLock lock(&mutex_);
  if (--inside_ == 0) idle_.SignalAll();
}

}  // namespace baton::worker
