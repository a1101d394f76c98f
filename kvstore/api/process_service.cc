#include "kvstore/api/process_service.h"

#include <unistd.h>

#include <utility>

#include "kvstore/client/object_codec.h"
#include "services/rpc/grpc_status.h"

namespace baton::kvstore {
namespace {

constexpr absl::Duration kDrainPoll = absl::Milliseconds(20);

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 const grpc::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

}  // namespace

DiscoveryService::DiscoveryService(ObjectIndex* index, std::string version)
    : index_(index), version_(std::move(version)) {}

grpc::ServerUnaryReactor* DiscoveryService::GetServerInfo(
    grpc::CallbackServerContext* context,
    const v1::GetServerInfoRequest* /*request*/, v1::ServerInfo* response) {
  response->set_role(v1::SERVER_ROLE_KVSTORE);
  response->set_version(version_);
  response->set_epoch(index_->epoch().value());
  response->set_process_id(static_cast<uint32_t>(getpid()));
  return Answer(context, grpc::Status::OK);
}

grpc::ServerUnaryReactor* DiscoveryService::GetLoad(
    grpc::CallbackServerContext* context, const v1::GetLoadRequest* /*request*/,
    v1::ServerLoad* response) {
  const ObjectIndex::Stat stat = index_->GetStat();
  response->set_reservations(static_cast<uint32_t>(stat.pending_writes));
  response->set_handoff_leases(static_cast<uint32_t>(stat.leases));
  response->set_kv_blocks_used(stat.pinned_objects);
  response->set_kv_blocks_cached(stat.objects - stat.pinned_objects);
  return Answer(context, grpc::Status::OK);
}

AdminService::AdminService(ObjectIndex* index, const Clock* clock,
                           Executor* executor,
                           std::function<void()> begin_drain)
    : index_(index),
      clock_(clock),
      executor_(executor),
      begin_drain_(std::move(begin_drain)) {}

grpc::ServerUnaryReactor* AdminService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse* response) {
  absl::Duration wait = absl::InfiniteDuration();
  if (request->has_deadline()) {
    const absl::StatusOr<absl::Duration> decoded =
        DecodeDuration(request->deadline());
    if (!decoded.ok()) {
      return Answer(context, rpc::ToGrpcStatus(decoded.status()));
    }
    wait = *decoded;
  }
  begin_drain_();
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  AwaitDrained({context, response, reactor, clock_->Monotonic() + wait});
  return reactor;
}

void AdminService::AwaitDrained(const DrainCall& call) {
  const uint64_t leases = index_->GetStat().leases;
  const bool waiting = leases > 0 && clock_->Monotonic() < call.deadline &&
                       !call.context->IsCancelled();
  if (waiting &&
      executor_->PostAfter(kDrainPoll, [this, call] { AwaitDrained(call); })) {
    return;
  }
  call.response->set_remaining_requests(static_cast<uint32_t>(leases));
  call.reactor->Finish(grpc::Status::OK);
}

grpc::ServerUnaryReactor* AdminService::FlushCache(
    grpc::CallbackServerContext* context,
    const v1::FlushCacheRequest* /*request*/,
    v1::FlushCacheResponse* response) {
  response->set_dropped_blocks(index_->Flush());
  return Answer(context, grpc::Status::OK);
}

}  // namespace baton::kvstore
