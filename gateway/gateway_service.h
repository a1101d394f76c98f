// The gateway put together: all parts, in the order in which they depend on
// each other, and the way they stop. Owned by main and by integration tests.
#ifndef BATON_GATEWAY_GATEWAY_SERVICE_H_
#define BATON_GATEWAY_GATEWAY_SERVICE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gateway/admission/admission_gate.h"
#include "gateway/api/admin_service.h"
#include "gateway/api/chat_service.h"
#include "gateway/api/completion_service.h"
#include "gateway/api/discovery_service.h"
#include "gateway/api/model_service.h"
#include "gateway/api/tokenizer_service.h"
#include "gateway/flow/flow_generator.h"
#include "gateway/flow/grpc_decode_client.h"
#include "gateway/flow/grpc_prefill_client.h"
#include "gateway/gateway_options.h"
#include "gateway/http/http_server.h"
#include "gateway/prompt/header_client.h"
#include "gateway/prompt/served_model.h"
#include "gateway/registry/channel_client.h"
#include "gateway/registry/probe_client.h"
#include "gateway/registry/worker_poller.h"
#include "gateway/registry/worker_registry.h"
#include "gateway/routing/router.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/mutex.h"
#include "services/rpc/server.h"
#include "services/telemetry/prometheus_metrics.h"

namespace baton::gateway {

// Thread-safe after Start.
class GatewayService {
 public:
  // Errors: kInvalidArgument, kUnavailable (an address or the model file).
  static absl::StatusOr<std::unique_ptr<GatewayService>> Start(
      const GatewayOptions& options);
  // Cancels what runs.
  ~GatewayService();

  const std::string& grpc_address() const { return server_->address(); }
  const std::string& http_address() const { return http_->address(); }
  // A model is known and a decode-capable worker is ready; false when
  // draining.
  bool ready() const;

  // Refuses new requests, waits up to `timeout` for the others. Returns how
  // many are left.
  uint32_t Drain(absl::Duration timeout);
  // Drains, then cancels what is left and stops all parts. Idempotent.
  void Stop(absl::Duration drain_timeout);

 private:
  explicit GatewayService(const GatewayOptions& options);
  void Compose();
  absl::Status Listen();
  void WatchReadiness();

  const GatewayOptions options_;
  SystemClock clock_;
  const std::unique_ptr<telemetry::PrometheusMetrics> metrics_;
  telemetry::Gauge* const ready_gauge_;
  ChannelCache channels_;
  WorkerRegistry registry_;
  GrpcWorkerProbe probe_;
  GrpcHeaderSource headers_;
  std::shared_ptr<ModelTracker> models_;
  std::shared_ptr<WorkerPoller> poller_;
  const Router router_;
  AdmissionGate gate_;
  GrpcPrefillClient prefill_;
  GrpcDecodeClient decode_;
  std::unique_ptr<FlowGenerator> generator_;
  std::unique_ptr<RequestBuilder> builder_;
  std::unique_ptr<ChatFront> chat_;
  std::unique_ptr<CompletionFront> completion_;
  std::unique_ptr<TokenizerFront> tokenizer_;
  std::unique_ptr<ModelFront> model_;
  std::unique_ptr<DiscoveryFront> discovery_;
  std::unique_ptr<AdminFront> admin_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<rpc::Server> server_;
  std::atomic<bool> draining_{false};
  Mutex serving_mutex_;
  bool stopping_ ABSL_GUARDED_BY(serving_mutex_) = false;
  // Last: their threads end before what their tasks use goes.
  ThreadPoolExecutor executor_;
  // Waits in Drain, so it is apart from the executor of the flows.
  ThreadPoolExecutor admin_executor_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_GATEWAY_SERVICE_H_
