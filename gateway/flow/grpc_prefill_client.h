// PrefillClient over gRPC: one server stream a prefill.
#ifndef BATON_GATEWAY_FLOW_GRPC_PREFILL_CLIENT_H_
#define BATON_GATEWAY_FLOW_GRPC_PREFILL_CLIENT_H_

#include <memory>
#include <string>

#include "gateway/flow/worker_clients.h"
#include "gateway/registry/channel_client.h"
#include "services/base/clock.h"

namespace baton::gateway {

class GrpcPrefillClient final : public PrefillClient {
 public:
  // Both must outlive all streams.
  GrpcPrefillClient(ChannelCache* channels, const Clock* clock)
      : channels_(channels), clock_(clock) {}
  std::shared_ptr<WorkerStream> Prefill(const std::string& address,
                                        const WorkerRequest& request,
                                        WorkerEventSink sink) override;

 private:
  ChannelCache* const channels_;
  const Clock* const clock_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_GRPC_PREFILL_CLIENT_H_
