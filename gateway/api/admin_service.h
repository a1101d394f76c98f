// AdminService of the gateway.
#ifndef BATON_GATEWAY_API_ADMIN_SERVICE_H_
#define BATON_GATEWAY_API_ADMIN_SERVICE_H_

#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "baton/v1/admin.grpc.pb.h"
#include "services/base/executor.h"

namespace baton::gateway {

// Thread-safe.
class AdminFront final : public v1::AdminService::CallbackService {
 public:
  struct Options {
    // Of a Drain without one.
    absl::Duration default_drain_timeout = absl::Seconds(60);
  };
  // Stops admission, waits up to the given time, returns the requests left.
  using DrainFunction = std::function<uint32_t(absl::Duration)>;

  // `executor` runs `drain`, which waits: no flow may run on it. It must
  // outlive the service.
  AdminFront(const Options& options, DrainFunction drain, Executor* executor)
      : options_(options), drain_(std::move(drain)), executor_(executor) {}

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  // The gateway caches no blocks: drops none.
  grpc::ServerUnaryReactor* FlushCache(
      grpc::CallbackServerContext* context,
      const v1::FlushCacheRequest* request,
      v1::FlushCacheResponse* response) override;

 private:
  const Options options_;
  const DrainFunction drain_;
  Executor* const executor_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_ADMIN_SERVICE_H_
