#include "kvstore/client/transfer_metrics.h"

namespace baton::kvstore {

absl::string_view FailureReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return "timeout";
    case absl::StatusCode::kDataLoss:
      return "crc";
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return "layout";
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kNotFound:
      return "expired";
    case absl::StatusCode::kResourceExhausted:
      return "no_room";
    default:
      return "unavailable";
  }
}

TransferMetrics::TransferMetrics(telemetry::MetricsRegistry* registry,
                                 const std::string& model_name,
                                 const std::string& transport) {
  const auto series = [&](const std::string& direction) {
    const telemetry::Labels labels = {{"model_name", model_name},
                                      {"direction", direction},
                                      {"transport", transport}};
    return Series{
        registry->GetHistogram("baton_kv_transfer_duration_seconds",
                               "Time of one whole KV transfer",
                               telemetry::TransferBuckets(), labels),
        registry->GetCounter("baton_kv_transfer_bytes_total",
                             "Payload bytes of whole KV transfers", labels)};
  };
  push_ = series("push");
  pull_ = series("pull");
  for (const char* reason :
       {"timeout", "crc", "layout", "unavailable", "expired", "no_room"}) {
    failures_[reason] = registry->GetCounter(
        "baton_kv_transfer_failures_total", "Failed KV transfers, by reason",
        {{"model_name", model_name}, {"reason", reason}});
  }
}

void TransferMetrics::Record(Direction direction, const absl::Status& status,
                             uint64_t payload_bytes,
                             absl::Duration elapsed) const {
  if (!status.ok()) {
    failures_.at(std::string(FailureReason(status)))->Increment();
    return;
  }
  const Series& series = direction == Direction::kPush ? push_ : pull_;
  series.seconds->Observe(absl::ToDoubleSeconds(elapsed));
  series.bytes->Increment(static_cast<double>(payload_bytes));
}

}  // namespace baton::kvstore
