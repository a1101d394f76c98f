// Whether this worker takes requests, and how many it has: closed while the
// model loads, open, then draining for good. Services exist before the model
// does, so the gate is also how they reach what it opened with.
#ifndef BATON_WORKER_HANDOFF_ADMISSION_GATE_H_
#define BATON_WORKER_HANDOFF_ADMISSION_GATE_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/mutex.h"

namespace baton::worker {

struct WorkerContext;

// Thread-safe. Legal transitions: loading -> open -> draining,
// loading -> draining.
class AdmissionGate {
 public:
  // A request that is inside; leaves on destruction. Move-only.
  class Pass {
   public:
    Pass(Pass&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)),
          context_(other.context_) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }
    const WorkerContext& context() const { return *context_; }

   private:
    friend class AdmissionGate;
    Pass(AdmissionGate* gate, const WorkerContext* context)
        : gate_(gate), context_(context) {}
    AdmissionGate* gate_;
    const WorkerContext* context_;
  };

  // `context` must outlive every pass.
  void Open(const WorkerContext* context);
  // Refuses from now on. Idempotent.
  void Drain();

  // Errors: kUnavailable with reason model_loading or draining.
  absl::StatusOr<Pass> Enter();
  // The context once open, also while draining; null before.
  const WorkerContext* context() const;

  // Waits until nobody is inside; false if `timeout` passed first.
  bool AwaitIdle(absl::Duration timeout);
  uint32_t inside() const;

 private:
  void Leave();

  mutable Mutex mutex_;
  CondVar idle_;
  const WorkerContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_ADMISSION_GATE_H_
