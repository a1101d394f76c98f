#include "services/telemetry/metrics_http.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/telemetry/build_info.h"

namespace baton::telemetry {
namespace {

http::Response Text(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(body);
  return response;
}

http::Response NotReady() {
  http::Response response =
      http::JsonError(503, "unavailable_error", "not_ready",
                      "Not ready: loading, draining, or without a worker");
  response.headers.emplace_back("retry-after", "1");
  return response;
}

}  // namespace

ProcessEndpoints::ProcessEndpoints(PrometheusMetrics* metrics,
                                   std::function<bool()> ready)
    : metrics_(metrics), ready_(std::move(ready)) {}

std::optional<http::Response> ProcessEndpoints::Answer(
    absl::string_view method, absl::string_view path) const {
  const bool known = path == "/metrics" || path == "/livez" ||
                     path == "/readyz" || path == "/health" ||
                     path == "/version";
  if (!known) return std::nullopt;
  if (method != "GET" && method != "HEAD") {
    http::Response response =
        http::JsonError(405, "invalid_request_error", "method_not_allowed",
                        "This path takes GET");
    response.headers.emplace_back("allow", "GET, HEAD");
    return response;
  }
  if (path == "/metrics") {
    http::Response response = Text(200, metrics_->Exposition());
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  }
  if (path == "/livez") return Text(200, "ok\n");
  if (path == "/readyz") {
    return ready_() ? Text(200, "ok\n") : Text(503, "not ready\n");
  }
  http::Response response;
  if (path == "/version") {
    response.body = absl::StrCat("{\"version\":\"", BuildVersion(),
                                 "\",\"commit\":\"", BuildCommit(), "\"}");
    return response;
  }
  if (!ready_()) return NotReady();
  response.body = "{\"status\":\"ok\"}";
  return response;
}

class MetricsHttp::Routes final : public http::Handler {
 public:
  Routes(PrometheusMetrics* metrics, std::function<bool()> ready)
      : endpoints_(metrics, std::move(ready)) {}

  void OnRequest(http::Request request,
                 std::shared_ptr<http::ResponseWriter> writer) override {
    auto answer = endpoints_.Answer(request.method, request.path);
    writer->Send(answer.has_value()
                     ? *std::move(answer)
                     : http::JsonError(404, "invalid_request_error",
                                       "not_found", "No such path"));
  }
  void OnRejected(int) override {}

 private:
  const ProcessEndpoints endpoints_;
};

absl::StatusOr<std::unique_ptr<MetricsHttp>> MetricsHttp::Start(
    const std::string& address, PrometheusMetrics* metrics,
    std::function<bool()> ready) {
  auto server = std::unique_ptr<MetricsHttp>(new MetricsHttp());
  server->routes_ = std::make_unique<Routes>(metrics, std::move(ready));
  http::Listener::Options options;
  options.address = address;
  options.handler_threads = 1;
  options.max_connections = 64;
  options.limits.max_body_bytes = 64 << 10;
  BATON_ASSIGN_OR_RETURN(server->listener_,
                         http::Listener::Start(options, server->routes_.get()));
  return server;
}

MetricsHttp::~MetricsHttp() { Stop(); }

std::string MetricsHttp::address() const { return listener_->address(); }

uint16_t MetricsHttp::port() const { return listener_->port(); }

void MetricsHttp::Stop() {
  if (listener_ != nullptr) listener_->Stop(absl::ZeroDuration());
}

}  // namespace baton::telemetry
