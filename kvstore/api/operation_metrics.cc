#include "kvstore/api/operation_metrics.h"

#include <algorithm>
#include <string>

namespace baton::kvstore {
namespace {

constexpr const char* kNames[kOperations] = {"lookup",  "reserve", "write",
                                             "commit",  "renew",   "get",
                                             "release", "delete",  "stat"};
constexpr double kBuckets[] = {.00005, .0001, .00025, .0005, .001, .0025, .005,
                               .01,    .025,  .05,    .1,    .25,  1,     10};

telemetry::Counter* Lookups(telemetry::MetricsRegistry* registry,
                            const std::string& result) {
  return registry->GetCounter(
      "baton_kv_store_lookups_total",
      "Prefix look-ups: all keys found, some, none, or an error",
      {{"result", result}});
}

}  // namespace

OperationMetrics::OperationMetrics(telemetry::MetricsRegistry* registry)
    : hit_(Lookups(registry, "hit")),
      partial_(Lookups(registry, "partial")),
      miss_(Lookups(registry, "miss")),
      error_(Lookups(registry, "error")) {
  for (size_t op = 0; op < kOperations; ++op) {
    for (size_t code = 0; code < kCodes; ++code) {
      calls_[op][code] = registry->GetCounter(
          "baton_kv_store_operations_total", "Calls by operation and outcome",
          {{"op", kNames[op]},
           {"code",
            absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
    }
    seconds_[op] =
        registry->GetHistogram("baton_kv_store_operation_duration_seconds",
                               "Time from a call's start to its status",
                               kBuckets, {{"op", kNames[op]}});
  }
}

void OperationMetrics::Record(Operation operation, const absl::Status& status,
                              absl::Duration elapsed) const {
  const size_t op = static_cast<size_t>(operation);
  calls_[op][static_cast<size_t>(status.code())]->Increment();
  seconds_[op]->Observe(absl::ToDoubleSeconds(elapsed));
}

void OperationMetrics::RecordLookup(const absl::Status& status, size_t keys,
                                    size_t hits) const {
  if (!status.ok()) {
    error_->Increment();
  } else if (keys > 0) {
    (hits == 0 ? miss_ : hits == keys ? hit_ : partial_)->Increment();
  }
}

}  // namespace baton::kvstore
