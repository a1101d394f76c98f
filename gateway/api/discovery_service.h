// DiscoveryService: the gateway, its load, and its view of the workers;
// workers announce themselves here. Whoever reaches this port can announce a
// worker, so it is never open to an untrusted network.
#ifndef BATON_GATEWAY_API_DISCOVERY_SERVICE_H_
#define BATON_GATEWAY_API_DISCOVERY_SERVICE_H_

#include <string>

#include "absl/time/time.h"
#include "baton/v1/discovery.grpc.pb.h"
#include "gateway/admission/admission_gate.h"
#include "gateway/prompt/request_builder.h"
#include "gateway/registry/worker_registry.h"
#include "services/base/ids.h"

namespace baton::gateway {

// Thread-safe.
class DiscoveryFront final : public v1::DiscoveryService::CallbackService {
 public:
  struct Options {
    std::string version;
    Epoch epoch;
    absl::Duration heartbeat_interval = absl::Seconds(5);
  };
  // Pointers must outlive the service.
  DiscoveryFront(const Options& options, WorkerRegistry* registry,
                 const AdmissionGate* gate, const ModelSource* models)
      : options_(options), registry_(registry), gate_(gate), models_(models) {}

  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::ServerInfo* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest* request,
                                    v1::ServerLoad* response) override;
  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override;

 private:
  const Options options_;
  WorkerRegistry* const registry_;
  const AdmissionGate* const gate_;
  const ModelSource* const models_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_DISCOVERY_SERVICE_H_
