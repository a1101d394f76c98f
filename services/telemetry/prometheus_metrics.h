// The Prometheus registry behind metrics.h. Its text goes out through each
// process's own HTTP listener (metrics_http.h).
#ifndef BATON_SERVICES_TELEMETRY_PROMETHEUS_METRICS_H_
#define BATON_SERVICES_TELEMETRY_PROMETHEUS_METRICS_H_

#include <memory>
#include <string>

#include "services/telemetry/metrics.h"

namespace baton::telemetry {

class PrometheusMetrics : public MetricsRegistry {
 public:
  // Adds baton_build_info{version, commit, role, backend} and the standard
  // process_* metrics, refreshed at each Exposition.
  static std::unique_ptr<PrometheusMetrics> Create(const std::string& role);
  // The exposition text, format 0.0.4.
  virtual std::string Exposition() = 0;
};

}  // namespace baton::telemetry

#endif  // BATON_SERVICES_TELEMETRY_PROMETHEUS_METRICS_H_
