#include "worker/api/admin_service.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "services/rpc/grpc_status.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {
namespace {

constexpr absl::Duration kDefaultDrain = absl::Seconds(30);
constexpr absl::Duration kCheckInterval = absl::Milliseconds(20);

// One Drain call; looks every kCheckInterval, so that no thread waits. Kept
// alive by the next check, and by gRPC until OnDone.
class DrainCall final : public grpc::ServerUnaryReactor {
 public:
  DrainCall(AdmissionGate* gate, const Clock* clock, Executor* timers,
            absl::Duration deadline, v1::DrainResponse* response)
      : gate_(gate),
        clock_(clock),
        timers_(timers),
        end_(clock->Monotonic() + deadline),
        response_(response) {}

  void Check() {
    const WorkerContext* worker = gate_->context();
    const uint32_t leases = worker == nullptr || worker->leases == nullptr
                                ? 0
                                : worker->leases->held();
    const uint32_t inside = gate_->inside();
    const bool over = inside + leases == 0 || cancelled_.load() ||
                      clock_->Monotonic() >= end_;
    if (over || !timers_->PostAfter(kCheckInterval, [this] { Check(); })) {
      response_->set_remaining_requests(inside);
      Finish(grpc::Status::OK);
    }
  }
  void OnCancel() override { cancelled_.store(true); }
  void OnDone() override { delete this; }

 private:
  AdmissionGate* const gate_;
  const Clock* const clock_;
  Executor* const timers_;
  const absl::Duration end_;
  v1::DrainResponse* const response_;  // gRPC's, until Finish
  std::atomic<bool> cancelled_{false};
};

}  // namespace

grpc::ServerUnaryReactor* AdminService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse* response) {
  gate_->Drain();
  on_drain_();
  absl::Duration deadline = kDefaultDrain;
  if (request->has_deadline()) {
    deadline = absl::Seconds(request->deadline().seconds()) +
               absl::Nanoseconds(request->deadline().nanos());
  }
  auto* call = new DrainCall(gate_, clock_, timers_, deadline, response);
  call->Check();
  return call;
}

grpc::ServerUnaryReactor* AdminService::FlushCache(
    grpc::CallbackServerContext* context, const v1::FlushCacheRequest* request,
    v1::FlushCacheResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const WorkerContext* worker = gate_->context();
  if (worker != nullptr) {
    response->set_dropped_blocks(worker->pool->DropCached());
  }
  reactor->Finish(worker == nullptr ? rpc::ToGrpcStatus(absl::UnavailableError(
                                          "the model is still loading"))
                                    : grpc::Status::OK);
  return reactor;
}

}  // namespace baton::worker
