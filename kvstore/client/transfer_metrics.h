// What a worker counts about moving KV bytes. Every series exists from the
// start.
#ifndef BATON_KVSTORE_CLIENT_TRANSFER_METRICS_H_
#define BATON_KVSTORE_CLIENT_TRANSFER_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/telemetry/metrics.h"

namespace baton::kvstore {

// The `reason` label of a failed transfer: timeout, crc, layout, expired,
// no_room or unavailable.
absl::string_view FailureReason(const absl::Status& status);

// Thread-safe.
class TransferMetrics {
 public:
  enum class Direction { kPush, kPull };

  // `transport`: "grpc". `registry` must outlive this.
  TransferMetrics(telemetry::MetricsRegistry* registry,
                  const std::string& model_name, const std::string& transport);

  // Duration and bytes are those of whole transfers; a failed one only counts
  // its reason.
  void Record(Direction direction, const absl::Status& status,
              uint64_t payload_bytes, absl::Duration elapsed) const;

 private:
  struct Series {
    telemetry::Histogram* seconds;
    telemetry::Counter* bytes;
  };
  Series push_;
  Series pull_;
  std::map<std::string, telemetry::Counter*> failures_;  // by reason
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_CLIENT_TRANSFER_METRICS_H_
