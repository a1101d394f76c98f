#include "services/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/rpc/call_metrics.h"
#include "services/rpc/grpc_runtime.h"

namespace baton::rpc {
namespace {

constexpr int kMinPingIntervalMs = 10'000;
constexpr int kMaxMetadataBytes = 16 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Options& options, const std::vector<grpc::Service*>& services,
    telemetry::MetricsRegistry* metrics) {
  PrepareGrpc();
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection)
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(),
                           &port);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kMinPingIntervalMs);
  // A second process on the same port would take half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(MakeCallMetricsInterceptor(metrics));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  std::unique_ptr<Server> server(new Server);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.address));
  }
  server->port_ = static_cast<uint16_t>(port);
  const size_t colon = options.address.rfind(':');
  server->address_ = absl::StrCat(options.address.substr(0, colon), ":", port);
  auto* health = server->server_->GetHealthCheckService();
  health->SetServingStatus("liveness", true);
  server->SetServing(false);
  return server;
}

Server::~Server() { Stop(absl::ZeroDuration()); }

void Server::SetServing(bool serving) {
  auto* health = server_->GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus("readiness", serving);
}

void Server::Stop(absl::Duration grace) {
  if (server_ == nullptr) return;
  SetServing(false);
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  server_.reset();
}

}  // namespace baton::rpc
