#include "worker/api/discovery_service.h"

#include <unistd.h>

#include "worker/api/model_codec.h"
#include "worker/handoff/handoff_codec.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {

grpc::ServerUnaryReactor* DiscoveryService::GetServerInfo(
    grpc::CallbackServerContext* context,
    const v1::GetServerInfoRequest* request, v1::ServerInfo* response) {
  response->set_role(options_.role);
  response->set_version(options_.version);
  response->set_epoch(options_.epoch.value());
  response->set_process_id(static_cast<uint32_t>(getpid()));
  response->set_max_sequences(options_.max_sequences);
  if (const WorkerContext* worker = gate_->context(); worker != nullptr) {
    EncodeModel(*worker, response->mutable_model());
    EncodeLayout(*worker->layout, response->mutable_layout());
    if (worker->store != nullptr) {
      response->set_kvstore_address(worker->store->address());
    }
    response->set_kv_blocks_total(worker->pool->Stats().total);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* DiscoveryService::GetLoad(
    grpc::CallbackServerContext* context, const v1::GetLoadRequest* request,
    v1::ServerLoad* response) {
  if (const WorkerContext* worker = gate_->context(); worker != nullptr) {
    const EngineLoad load = worker->engine->Load();
    response->set_running_sequences(load.running);
    response->set_waiting_sequences(load.waiting);
    const BlockPoolStats stats = worker->pool->Stats();
    response->set_kv_blocks_total(stats.total);
    response->set_kv_blocks_used(stats.held);
    response->set_kv_blocks_cached(stats.cached);
    if (worker->leases != nullptr) {
      response->set_handoff_leases(worker->leases->held());
    }
  }
  response->set_reservations(options_.reservations());
  response->set_inflight_requests(gate_->inside());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace baton::worker
