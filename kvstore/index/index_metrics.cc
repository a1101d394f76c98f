#include "kvstore/index/index_metrics.h"

#include <string>

namespace baton::kvstore {
namespace {

telemetry::Counter* Evictions(telemetry::MetricsRegistry* registry,
                              const std::string& reason) {
  return registry->GetCounter("baton_kv_store_evictions_total",
                              "Objects dropped, by reason",
                              {{"reason", reason}});
}

}  // namespace

IndexMetrics::IndexMetrics(telemetry::MetricsRegistry* registry)
    : bytes(registry->GetGauge("baton_kv_store_bytes",
                               "Bytes in use, reservations included",
                               {{"tier", "mem"}})),
      capacity_bytes(registry->GetGauge("baton_kv_store_capacity_bytes",
                                        "Upper bound of the bytes in use",
                                        {{"tier", "mem"}})),
      objects(
          registry->GetGauge("baton_kv_store_objects", "Committed objects")),
      leases(registry->GetGauge("baton_kv_store_leases",
                                "Leases that have not ended")),
      pending_writes(registry->GetGauge("baton_kv_store_pending_writes",
                                        "Reservations without a commit")),
      evicted_for_capacity(Evictions(registry, "capacity")),
      evicted_by_ttl(Evictions(registry, "ttl")),
      evicted_by_admin(Evictions(registry, "admin")),
      evicted_as_corrupt(Evictions(registry, "corrupt")),
      abandoned_writes(
          registry->GetCounter("baton_kv_store_abandoned_writes_total",
                               "Reservations that ended without a commit")) {}

}  // namespace baton::kvstore
