// What the index counts. Every series exists from the start.
#ifndef BATON_KVSTORE_INDEX_INDEX_METRICS_H_
#define BATON_KVSTORE_INDEX_INDEX_METRICS_H_

#include "services/telemetry/metrics.h"

namespace baton::kvstore {

struct IndexMetrics {
  // `registry` must outlive the result.
  explicit IndexMetrics(telemetry::MetricsRegistry* registry);

  telemetry::Gauge* const bytes;
  telemetry::Gauge* const capacity_bytes;
  telemetry::Gauge* const objects;
  telemetry::Gauge* const leases;
  telemetry::Gauge* const pending_writes;
  // baton_kv_store_evictions_total by reason.
  telemetry::Counter* const evicted_for_capacity;
  telemetry::Counter* const evicted_by_ttl;  // ephemeral, lease expired
  telemetry::Counter* const evicted_by_admin;
  telemetry::Counter* const evicted_as_corrupt;
  telemetry::Counter* const abandoned_writes;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_INDEX_INDEX_METRICS_H_
