// baton.v1.AdminService of a worker. Edge code.
#ifndef BATON_WORKER_API_ADMIN_SERVICE_H_
#define BATON_WORKER_API_ADMIN_SERVICE_H_

#include <functional>

#include "baton/v1/admin.grpc.pb.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "worker/handoff/admission_gate.h"

namespace baton::worker {

// Thread-safe.
class AdminService final : public v1::AdminService::CallbackService {
 public:
  // All must outlive the server. `on_drain` turns health to NOT_SERVING; it is
  // called on an RPC thread and must not block.
  AdminService(AdmissionGate* gate, const Clock* clock, Executor* timers,
               std::function<void()> on_drain)
      : gate_(gate),
        clock_(clock),
        timers_(timers),
        on_drain_(std::move(on_drain)) {}

  // Answers when no request is inside and no lease is held, or at the deadline
  // (not set: 30 s) with the number of requests left.
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* FlushCache(
      grpc::CallbackServerContext* context,
      const v1::FlushCacheRequest* request,
      v1::FlushCacheResponse* response) override;

 private:
  AdmissionGate* const gate_;
  const Clock* const clock_;
  Executor* const timers_;
  const std::function<void()> on_drain_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_API_ADMIN_SERVICE_H_
