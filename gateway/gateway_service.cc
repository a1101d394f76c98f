#include "gateway/gateway_service.h"

#include <utility>

#include "services/base/log.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

constexpr absl::Duration kReadinessInterval = absl::Milliseconds(100);
// What cancelled calls need to tell their clients.
constexpr absl::Duration kCancelGrace = absl::Seconds(2);

}  // namespace

GatewayService::GatewayService(const GatewayOptions& options)
    : options_(options),
      metrics_(telemetry::PrometheusMetrics::Create("gateway")),
      ready_gauge_(metrics_->GetGauge(
          "baton_ready", "Readiness as served by the health protocol")),
      registry_({}, &clock_, metrics_.get()),
      probe_(&channels_),
      headers_({}, &channels_),
      router_({options.min_remote_prompt_tokens}),
      gate_({options.max_inflight, options.max_queued}, &clock_,
            metrics_.get()),
      prefill_(&channels_, &clock_),
      decode_(&channels_, &clock_),
      executor_({options.threads, 65536}),
      admin_executor_({1, 16}) {}

absl::StatusOr<std::unique_ptr<GatewayService>> GatewayService::Start(
    const GatewayOptions& options) {
  std::unique_ptr<GatewayService> gateway(new GatewayService(options));
  gateway->Compose();
  if (!options.model.empty()) {
    BATON_RETURN_IF_ERROR(gateway->models_->LoadFile(options.model));
  }
  BATON_RETURN_IF_ERROR(gateway->Listen());
  for (const std::string& worker : options.workers) {
    gateway->registry_.AddStatic(worker);
  }
  gateway->poller_->Start();
  gateway->WatchReadiness();
  return gateway;
}

void GatewayService::Compose() {
  FlowEnvironment environment;
  environment.registry = &registry_;
  environment.gate = &gate_;
  environment.prefill = &prefill_;
  environment.decode = &decode_;
  environment.router = &router_;
  environment.clock = &clock_;
  environment.executor = &executor_;
  RequestFlow::Options flow;
  flow.queue_timeout = options_.queue_timeout;
  flow.resume_timeout = options_.resume_timeout;
  flow.stall_timeout = options_.stall_timeout;
  flow.hang_timeout = options_.hang_timeout;
  models_ =
      ModelTracker::Create({options_.served_model_names}, &headers_, &executor_,
                           &clock_, [this](const ServedModel& model) {
                             generator_->PrepareMetrics(model.name);
                           });
  generator_ = std::make_unique<FlowGenerator>(
      FlowGenerator::Options{flow}, environment, metrics_.get(),
      [models = models_]() -> FlowText {
        auto model = models->Current();
        if (model == nullptr) return {};
        return {model->name, model->tokenizer};
      });
  RequestBuilder::Options build;
  build.default_timeout = options_.request_timeout;
  builder_ = std::make_unique<RequestBuilder>(build, models_.get(), &clock_);
  poller_ = WorkerPoller::Create(
      {options_.poll_interval, options_.poll_timeout}, &registry_, &probe_,
      &executor_,
      [models = models_](const std::string& address, const WorkerFacts& facts) {
        models->OnFacts(address, facts);
      });
}

absl::Status GatewayService::Listen() {
  const ApiEnvironment api{generator_.get(), builder_.get(), models_.get(),
                           &executor_, &clock_};
  chat_ = std::make_unique<ChatFront>(api);
  completion_ = std::make_unique<CompletionFront>(api);
  tokenizer_ = std::make_unique<TokenizerFront>(models_.get(), &executor_);
  model_ = std::make_unique<ModelFront>(models_.get());
  DiscoveryFront::Options discovery;
  discovery.version = "0.1.0";
  discovery.epoch = Epoch(RandomIdentity());
  discovery_ = std::make_unique<DiscoveryFront>(discovery, &registry_, &gate_,
                                                models_.get());
  admin_ = std::make_unique<AdminFront>(
      AdminFront::Options{options_.process.drain_timeout},
      [this](absl::Duration timeout) { return Drain(timeout); },
      &admin_executor_);
  HttpServer::Options http;
  http.listener.address = options_.process.http;
  http.ping_interval = options_.ping_interval;
  BATON_ASSIGN_OR_RETURN(
      http_,
      HttpServer::Start(http, generator_.get(), builder_.get(), models_.get(),
                        metrics_.get(), [this] { return ready(); }));
  rpc::Server::Options rpc;
  rpc.address = options_.process.grpc;
  rpc.reflection = options_.grpc_reflection;
  BATON_ASSIGN_OR_RETURN(
      server_,
      rpc::Server::Start(rpc,
                         {chat_.get(), completion_.get(), tokenizer_.get(),
                          model_.get(), discovery_.get(), admin_.get()},
                         metrics_.get()));
  registry_.SetOwnAddress(server_->address());
  return absl::OkStatus();
}

bool GatewayService::ready() const {
  return !draining_ && models_->Current() != nullptr && registry_.CanServe();
}

void GatewayService::WatchReadiness() {
  const bool now = ready();
  ready_gauge_->Set(now ? 1 : 0);
  {
    MutexLock lock(&serving_mutex_);
    if (stopping_) return;  // the server may be gone
    server_->SetServing(now);
  }
  executor_.PostAfter(kReadinessInterval, [this] { WatchReadiness(); });
}

uint32_t GatewayService::Drain(absl::Duration timeout) {
  draining_ = true;
  server_->SetServing(false);
  gate_.Close();
  return generator_->AwaitIdle(timeout);
}

void GatewayService::Stop(absl::Duration drain_timeout) {
  {
    MutexLock lock(&serving_mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  if (server_ != nullptr) {
    const uint32_t left = Drain(drain_timeout);
    if (left > 0) {
      Log(LogLevel::kWarning, "requests cut off by the end of the drain",
          {{"requests", left}});
      generator_->CancelAll();
      generator_->AwaitIdle(kCancelGrace);
    }
    server_->Stop(kCancelGrace);
  }
  if (http_ != nullptr) http_->Stop(kCancelGrace);
  if (poller_ != nullptr) poller_->Stop();
  admin_executor_.Stop();
  executor_.Stop();
}

GatewayService::~GatewayService() { Stop(absl::ZeroDuration()); }

}  // namespace baton::gateway
