// baton.v1.DiscoveryService of a worker: what it is and how loaded. Register
// belongs to the gateway and is UNIMPLEMENTED here. Edge code.
#ifndef BATON_WORKER_API_DISCOVERY_SERVICE_H_
#define BATON_WORKER_API_DISCOVERY_SERVICE_H_

#include <functional>
#include <string>

#include "baton/v1/discovery.grpc.pb.h"
#include "services/base/ids.h"
#include "worker/handoff/admission_gate.h"

namespace baton::worker {

// Thread-safe if `reservations` is.
class DiscoveryService final : public v1::DiscoveryService::CallbackService {
 public:
  struct Options {
    v1::ServerRole role = v1::SERVER_ROLE_ANY;
    std::string version;
    Epoch epoch;
    uint32_t max_sequences = 0;
    std::function<uint32_t()> reservations;
  };

  // `gate` must outlive the server. While the model loads, the answers hold
  // what is known: role, version, epoch, process.
  DiscoveryService(const Options& options, const AdmissionGate* gate)
      : options_(options), gate_(gate) {}

  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::ServerInfo* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest* request,
                                    v1::ServerLoad* response) override;

 private:
  const Options options_;
  const AdmissionGate* const gate_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_API_DISCOVERY_SERVICE_H_
