// Looks at a worker over gRPC: DiscoveryService and the health protocol.
#ifndef BATON_GATEWAY_REGISTRY_PROBE_CLIENT_H_
#define BATON_GATEWAY_REGISTRY_PROBE_CLIENT_H_

#include <functional>
#include <string>

#include "gateway/registry/channel_client.h"
#include "gateway/registry/worker_probe.h"

namespace baton::gateway {

class GrpcWorkerProbe final : public WorkerProbe {
 public:
  // `channels` must outlive this.
  explicit GrpcWorkerProbe(ChannelCache* channels) : channels_(channels) {}
  void Probe(const std::string& address, bool want_facts,
             absl::Duration timeout,
             std::function<void(ProbeResult)> done) override;

 private:
  ChannelCache* const channels_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_PROBE_CLIENT_H_
