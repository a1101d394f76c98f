#include "gateway/http/http_server.h"

#include <utility>

#include "absl/status/status.h"
#include "gateway/http/generation_handlers.h"
#include "gateway/http/measured_writer.h"
#include "gateway/http/model_handlers.h"
#include "gateway/http/route_table.h"
#include "services/base/clock.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"
#include "services/telemetry/metrics_http.h"

namespace baton::gateway {
namespace {

// The route label of requests that match none.
constexpr char kOther[] = "other";

}  // namespace

class HttpServer::Front final : public http::Handler {
 public:
  Front(const Options& options, Generator* generator,
        const RequestBuilder* builder, const ModelSource* models,
        telemetry::PrometheusMetrics* metrics, std::function<bool()> ready)
      : clock_(std::make_shared<SystemClock>()),
        http_metrics_(std::make_shared<HttpMetrics>(metrics, clock_)),
        process_(metrics, std::move(ready)),
        generations_(generator, builder, models, clock_, options.ping_interval),
        models_(models) {
    AddRoutes();
    for (const RouteTable::Route& route : routes_.routes()) {
      http_metrics_->Declare(route.path);
    }
  }

  void OnRequest(http::Request request,
                 std::shared_ptr<http::ResponseWriter> writer) override {
    RouteTable::Match match = routes_.Find(request.method, request.path);
    Call call;
    call.request_id = http::UsableRequestId(request.Header("x-request-id"));
    call.argument = std::move(match.argument);
    call.writer = std::make_shared<MeasuredWriter>(
        std::move(writer), http_metrics_,
        match.route == nullptr ? kOther : match.route->path,
        call.request_id.empty() ? RandomName("req-") : call.request_id);
    if (match.route != nullptr) {
      call.request = std::move(request);
      return match.route->function(std::move(call));
    }
    if (match.allowed.empty()) {
      return call.writer->Send(http::JsonError(404, "invalid_request_error",
                                               "not_found", "No such path"));
    }
    http::Response response =
        http::JsonError(405, "invalid_request_error", "method_not_allowed",
                        "This path does not take this method");
    response.headers.emplace_back("allow", match.allowed);
    call.writer->Send(std::move(response));
  }

  void OnRejected(int status) override {
    http_metrics_->Count(kOther, status, absl::ZeroDuration());
  }

 private:
  void AddRoutes() {
    routes_.Add("POST", "/v1/chat/completions",
                [this](Call call) { generations_.Chat(std::move(call)); });
    routes_.Add("POST", "/v1/completions", [this](Call call) {
      generations_.Completion(std::move(call));
    });
    routes_.Add("GET", "/v1/models",
                [this](Call call) { models_.List(std::move(call)); });
    routes_.Add("GET", "/v1/models/{id}",
                [this](Call call) { models_.Get(std::move(call)); });
    routes_.Add("POST", "/tokenize",
                [this](Call call) { models_.Tokenize(std::move(call)); });
    routes_.Add("POST", "/detokenize",
                [this](Call call) { models_.Detokenize(std::move(call)); });
    routes_.Add("POST", "/apply-template",
                [this](Call call) { models_.ApplyTemplate(std::move(call)); });
    for (const char* path :
         {"/health", "/livez", "/readyz", "/metrics", "/version"}) {
      AddProcessRoute(path, path);
    }
    AddProcessRoute("/v1/health", "/health");
  }

  void AddProcessRoute(const char* path, const char* endpoint) {
    routes_.Add("GET", path, [this, endpoint](Call call) {
      auto answer = process_.Answer(call.request.method, endpoint);
      if (answer.has_value()) call.writer->Send(*std::move(answer));
    });
  }

  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<HttpMetrics> http_metrics_;
  const telemetry::ProcessEndpoints process_;
  const GenerationHandlers generations_;
  const ModelHandlers models_;
  RouteTable routes_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const Options& options, Generator* generator, const RequestBuilder* builder,
    const ModelSource* models, telemetry::PrometheusMetrics* metrics,
    std::function<bool()> ready) {
  auto server = std::unique_ptr<HttpServer>(new HttpServer());
  server->front_ = std::make_unique<Front>(options, generator, builder, models,
                                           metrics, std::move(ready));
  BATON_ASSIGN_OR_RETURN(
      server->listener_,
      http::Listener::Start(options.listener, server->front_.get()));
  return server;
}

HttpServer::~HttpServer() { Stop(absl::ZeroDuration()); }

void HttpServer::Stop(absl::Duration grace) {
  if (listener_ != nullptr) listener_->Stop(grace);
}

}  // namespace baton::gateway
