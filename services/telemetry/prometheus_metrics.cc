#include "services/telemetry/prometheus_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/mutex.h"
#include "services/telemetry/build_info.h"

namespace baton::telemetry {
namespace {

class CounterOf final : public Counter {
 public:
  explicit CounterOf(prometheus::Counter* counter) : counter_(counter) {}
  void Increment(double by) override { counter_->Increment(by); }

 private:
  prometheus::Counter* const counter_;
};

class GaugeOf final : public Gauge {
 public:
  explicit GaugeOf(prometheus::Gauge* gauge) : gauge_(gauge) {}
  void Set(double value) override { gauge_->Set(value); }
  void Add(double by) override { gauge_->Increment(by); }

 private:
  prometheus::Gauge* const gauge_;
};

class HistogramOf final : public Histogram {
 public:
  explicit HistogramOf(prometheus::Histogram* histogram)
      : histogram_(histogram) {}
  void Observe(double value) override { histogram_->Observe(value); }

 private:
  prometheus::Histogram* const histogram_;
};

uint64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long total = 0, resident = 0;
  const int read = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE))
                   : 0;
}

class Registry final : public PrometheusMetrics {
 public:
  explicit Registry(const std::string& role) {
    GetGauge("baton_build_info", "Build and role of this process",
             {{"version", BuildVersion()},
              {"commit", BuildCommit()},
              {"role", role},
              {"backend", "cpu"}})
        ->Set(1);
    GetGauge("process_start_time_seconds",
             "Start time of the process since the Unix epoch", {})
        ->Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
    resident_ = GetGauge("process_resident_memory_bytes",
                         "Resident memory of the process", {});
    cpu_ = GetCounter("process_cpu_seconds_total",
                      "User and system time of the process", {});
  }

  Counter* GetCounter(absl::string_view name, absl::string_view help,
                      const Labels& labels) override {
    MutexLock lock(&mutex_);
    auto& slot = counters_[{std::string(name), labels}];
    if (slot == nullptr) {
      slot = std::make_unique<CounterOf>(&prometheus::BuildCounter()
                                              .Name(std::string(name))
                                              .Help(std::string(help))
                                              .Register(registry_)
                                              .Add(labels));
    }
    return slot.get();
  }

  Gauge* GetGauge(absl::string_view name, absl::string_view help,
                  const Labels& labels) override {
    MutexLock lock(&mutex_);
    auto& slot = gauges_[{std::string(name), labels}];
    if (slot == nullptr) {
      slot = std::make_unique<GaugeOf>(&prometheus::BuildGauge()
                                            .Name(std::string(name))
                                            .Help(std::string(help))
                                            .Register(registry_)
                                            .Add(labels));
    }
    return slot.get();
  }

  Histogram* GetHistogram(absl::string_view name, absl::string_view help,
                          std::span<const double> buckets,
                          const Labels& labels) override {
    MutexLock lock(&mutex_);
    auto& slot = histograms_[{std::string(name), labels}];
    if (slot == nullptr) {
      slot = std::make_unique<HistogramOf>(
          &prometheus::BuildHistogram()
               .Name(std::string(name))
               .Help(std::string(help))
               .Register(registry_)
               .Add(labels, prometheus::Histogram::BucketBoundaries(
                                buckets.begin(), buckets.end())));
    }
    return slot.get();
  }

  std::string Exposition() override {
    resident_->Set(static_cast<double>(ResidentBytes()));
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const double seconds =
        static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
        static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
            1e6;
    {
      MutexLock lock(&mutex_);
      if (seconds > counted_cpu_seconds_) {
        cpu_->Increment(seconds - counted_cpu_seconds_);
        counted_cpu_seconds_ = seconds;
      }
    }
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  using Key = std::pair<std::string, Labels>;
  prometheus::Registry registry_;
  Mutex mutex_;
  std::map<Key, std::unique_ptr<CounterOf>> counters_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::unique_ptr<GaugeOf>> gauges_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, std::unique_ptr<HistogramOf>> histograms_
      ABSL_GUARDED_BY(mutex_);
  Gauge* resident_ = nullptr;
  Counter* cpu_ = nullptr;
  double counted_cpu_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<PrometheusMetrics> PrometheusMetrics::Create(
    const std::string& role) {
  return std::make_unique<Registry>(role);
}

}  // namespace baton::telemetry
