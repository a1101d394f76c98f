// Counts and times the store's operations. Every series exists from the start.
#ifndef BATON_KVSTORE_API_OPERATION_METRICS_H_
#define BATON_KVSTORE_API_OPERATION_METRICS_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/telemetry/metrics.h"

namespace baton::kvstore {

enum class Operation {
  kLookup,
  kReserve,
  kWrite,
  kCommit,
  kRenew,
  kGet,
  kRelease,
  kDelete,
  kStat,
};
inline constexpr size_t kOperations = 9;

// Thread-safe.
class OperationMetrics {
 public:
  // `registry` must outlive this.
  explicit OperationMetrics(telemetry::MetricsRegistry* registry);

  void Record(Operation operation, const absl::Status& status,
              absl::Duration elapsed) const;
  // A look-up of `keys` keys that found `hits`. One without keys only asks for
  // a lease, and is not counted.
  void RecordLookup(const absl::Status& status, size_t keys, size_t hits) const;

 private:
  static constexpr size_t kCodes = 17;  // of absl::StatusCode

  std::array<std::array<telemetry::Counter*, kCodes>, kOperations> calls_;
  std::array<telemetry::Histogram*, kOperations> seconds_;
  telemetry::Counter* const hit_;
  telemetry::Counter* const partial_;
  telemetry::Counter* const miss_;
  telemetry::Counter* const error_;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_API_OPERATION_METRICS_H_
