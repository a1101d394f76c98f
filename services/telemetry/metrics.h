// Metrics as core code sees them: three interfaces and a registry that hands
// them out. The Prometheus implementation is prometheus_metrics.h; tests use
// it too and read the exposition text. Names follow ARCHITECTURE.md's table:
// prefix baton_, base units, ratios 0..1.
//
// Core code asks for its metrics once, in its constructor, with every label
// value it will ever use, so that each series exists from the start.
#ifndef BATON_SERVICES_TELEMETRY_METRICS_H_
#define BATON_SERVICES_TELEMETRY_METRICS_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::telemetry {

using Labels = std::map<std::string, std::string>;

// All thread-safe; updates take no lock that a scrape holds for long.
class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Increment(double by = 1) = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double by) = 0;  // may be negative
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// Owns what it returns, for its own lifetime. The same name and labels give
// the same object. Thread-safe.
class MetricsRegistry {
 public:
  virtual ~MetricsRegistry() = default;
  virtual Counter* GetCounter(absl::string_view name, absl::string_view help,
                              const Labels& labels = {}) = 0;
  virtual Gauge* GetGauge(absl::string_view name, absl::string_view help,
                          const Labels& labels = {}) = 0;
  // `buckets`: ascending upper bounds, without +Inf.
  virtual Histogram* GetHistogram(absl::string_view name,
                                  absl::string_view help,
                                  std::span<const double> buckets,
                                  const Labels& labels = {}) = 0;
};

// Bucket bounds that dashboards and other servers use; seconds.
std::span<const double> TimeToFirstTokenBuckets();
std::span<const double> InterTokenBuckets();
std::span<const double> RequestBuckets();
std::span<const double> TransferBuckets();
// What a control plane may add: 50 microseconds to 100 milliseconds.
std::span<const double> OverheadBuckets();
// Tokens, 1-2-5 series; bytes, 4 KiB to 1 GiB by 4.
std::span<const double> TokenBuckets();
std::span<const double> ByteBuckets();

}  // namespace baton::telemetry

#endif  // BATON_SERVICES_TELEMETRY_METRICS_H_
