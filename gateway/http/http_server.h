// The OpenAI-compatible HTTP front: routes, handlers and the listener put
// together. It translates and delegates; what a request means is decided by
// RequestBuilder and Generator, as for the gRPC front.
#ifndef BATON_GATEWAY_HTTP_HTTP_SERVER_H_
#define BATON_GATEWAY_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gateway/flow/generation.h"
#include "gateway/prompt/request_builder.h"
#include "services/http/listener.h"
#include "services/telemetry/prometheus_metrics.h"

namespace baton::gateway {

// Thread-safe.
class HttpServer {
 public:
  struct Options {
    // Address, threads, connections and limits of the listener.
    http::Listener::Options listener;
    // A stream is never silent for longer: a comment is sent.
    absl::Duration ping_interval = absl::Seconds(10);
  };

  // Pointers must outlive the server, and `metrics` also every generation
  // that it started. `ready` is called on handler threads and must not block.
  // Errors: kInvalidArgument (address), kUnavailable (cannot bind).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const Options& options, Generator* generator,
      const RequestBuilder* builder, const ModelSource* models,
      telemetry::PrometheusMetrics* metrics, std::function<bool()> ready);
  ~HttpServer();

  const std::string& address() const { return listener_->address(); }
  uint16_t port() const { return listener_->port(); }
  // Accepts nothing more, lets answers end for up to `grace`, then closes
  // what is left, which cancels its generations. Idempotent.
  void Stop(absl::Duration grace);

 private:
  class Front;
  HttpServer() = default;

  std::unique_ptr<Front> front_;
  std::unique_ptr<http::Listener> listener_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_HTTP_SERVER_H_
