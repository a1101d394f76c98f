// The cluster as the gateway sees it at one moment: an immutable value that
// the router reads. Made by the registry; shared by reference count.
#ifndef BATON_GATEWAY_REGISTRY_CLUSTER_SNAPSHOT_H_
#define BATON_GATEWAY_REGISTRY_CLUSTER_SNAPSHOT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "services/base/ids.h"

namespace baton::gateway {

enum class WorkerRole { kPrefill, kDecode, kAny };

struct WorkerSnapshot {
  WorkerId id;
  std::string address;  // "host:port"
  WorkerRole role = WorkerRole::kAny;
  bool ready = false;
  std::string state;  // why it is not ready, for people
  Epoch epoch;
  std::string model_digest;        // 32 raw bytes
  std::string layout_fingerprint;  // 32 raw bytes
  std::string numerics_id;
  uint32_t max_sequences = 0;
  // Load: last report plus what this gateway has sent since.
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t kv_blocks_total = 0;
  uint64_t kv_blocks_used = 0;
  uint32_t inflight = 0;  // this gateway's own requests on it
};

struct ClusterSnapshot {
  std::vector<WorkerSnapshot> workers;  // ascending by id
  uint64_t version = 0;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_CLUSTER_SNAPSHOT_H_
