// The small HTTP listener of a process that serves no other HTTP: metrics for
// Prometheus, probes for an orchestrator. The same answers stand in the
// gateway's own HTTP front, through ProcessEndpoints.
#ifndef BATON_SERVICES_TELEMETRY_METRICS_HTTP_H_
#define BATON_SERVICES_TELEMETRY_METRICS_HTTP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/http/listener.h"
#include "services/http/message.h"
#include "services/telemetry/prometheus_metrics.h"

namespace baton::telemetry {

// Answers what every process answers:
//   /metrics           exposition text, format 0.0.4
//   /livez             200 while the process runs
//   /readyz            200 or 503, as `ready` says
//   /health            {"status":"ok"}, or 503 with an error object
//   /version           {"version","commit"}
// Thread-safe if `ready` is.
class ProcessEndpoints {
 public:
  // `metrics` must outlive this.
  ProcessEndpoints(PrometheusMetrics* metrics, std::function<bool()> ready);
  // nullopt: not one of these paths. Other methods than GET and HEAD are
  // answered 405.
  std::optional<http::Response> Answer(absl::string_view method,
                                       absl::string_view path) const;

 private:
  PrometheusMetrics* const metrics_;
  const std::function<bool()> ready_;
};

// Thread-safe.
class MetricsHttp {
 public:
  // `address`: "host:port", port 0 picks one. `metrics` must outlive this;
  // `ready` is called on a thread of the listener and must not block.
  // Errors: kInvalidArgument (address), kUnavailable (cannot bind).
  static absl::StatusOr<std::unique_ptr<MetricsHttp>> Start(
      const std::string& address, PrometheusMetrics* metrics,
      std::function<bool()> ready);
  ~MetricsHttp();

  std::string address() const;  // with the real port
  uint16_t port() const;
  // Closes all connections and joins. Idempotent.
  void Stop();

 private:
  class Routes;
  MetricsHttp() = default;

  std::unique_ptr<Routes> routes_;
  std::unique_ptr<http::Listener> listener_;
};

}  // namespace baton::telemetry

#endif  // BATON_SERVICES_TELEMETRY_METRICS_HTTP_H_
