#include "gateway/api/discovery_service.h"

#include <unistd.h>

#include "gateway/api/generation_codec.h"
#include "gateway/api/unary_service.h"
#include "gateway/registry/registry_codec.h"

namespace baton::gateway {

grpc::ServerUnaryReactor* DiscoveryFront::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::ServerInfo* response) {
  response->set_role(v1::SERVER_ROLE_GATEWAY);
  response->set_version(options_.version);
  response->set_epoch(options_.epoch.value());
  response->set_process_id(static_cast<uint32_t>(getpid()));
  if (auto model = models_->Current()) {
    *response->mutable_model() = ModelToProto(*model);
  }
  for (const WorkerSnapshot& worker : registry_->Snapshot()->workers) {
    *response->add_workers() = WorkerViewToProto(worker);
  }
  return ReplyNow(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* DiscoveryFront::GetLoad(
    grpc::CallbackServerContext* context, const v1::GetLoadRequest*,
    v1::ServerLoad* response) {
  response->set_inflight_requests(gate_->inflight());
  response->set_queued_requests(gate_->queued());
  return ReplyNow(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* DiscoveryFront::Register(
    grpc::CallbackServerContext* context, const v1::RegisterRequest* request,
    v1::RegisterResponse* response) {
  response->set_heartbeat_interval_ms(static_cast<uint32_t>(
      absl::ToInt64Milliseconds(options_.heartbeat_interval)));
  return ReplyNow(context, registry_->Register(WorkerId(request->worker_id()),
                                               request->address(),
                                               Epoch(request->epoch())));
}

}  // namespace baton::gateway
