// What every Baton process serves beside its own service, for the store:
// who it is, how loaded, and the operator's calls.
#ifndef BATON_KVSTORE_API_PROCESS_SERVICE_H_
#define BATON_KVSTORE_API_PROCESS_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>

#include "baton/v1/admin.grpc.pb.h"
#include "baton/v1/discovery.grpc.pb.h"
#include "kvstore/index/object_index.h"
#include "services/base/clock.h"
#include "services/base/executor.h"

namespace baton::kvstore {

// Register is the gateway's, and UNIMPLEMENTED here.
class DiscoveryService final : public v1::DiscoveryService::CallbackService {
 public:
  // `index` must outlive the service.
  DiscoveryService(ObjectIndex* index, std::string version);

  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::ServerInfo* response) override;
  // Blocks are the store's objects.
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest* request,
                                    v1::ServerLoad* response) override;

 private:
  ObjectIndex* const index_;
  const std::string version_;
};

class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `begin_drain` stops admission; it must not block and may be called again.
  // All must outlive the service, and the executor the server, too: a Drain
  // waits on it.
  AdminService(ObjectIndex* index, const Clock* clock, Executor* executor,
               std::function<void()> begin_drain);

  // Answers once no lease is held, or at the request's deadline (none given:
  // that of the call) with the leases left.
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* FlushCache(
      grpc::CallbackServerContext* context,
      const v1::FlushCacheRequest* request,
      v1::FlushCacheResponse* response) override;

 private:
  // The call's context, response and reactor live until it is finished.
  struct DrainCall {
    grpc::CallbackServerContext* context;
    v1::DrainResponse* response;
    grpc::ServerUnaryReactor* reactor;
    absl::Duration deadline;
  };
  void AwaitDrained(const DrainCall& call);

  ObjectIndex* const index_;
  const Clock* const clock_;
  Executor* const executor_;
  const std::function<void()> begin_drain_;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_API_PROCESS_SERVICE_H_
