// What one look at a worker gives, and the interface that takes the look. The
// gRPC implementation is probe_client.h; tests step a fake.
#ifndef BATON_GATEWAY_REGISTRY_WORKER_PROBE_H_
#define BATON_GATEWAY_REGISTRY_WORKER_PROBE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gateway/registry/cluster_snapshot.h"
#include "services/base/ids.h"

namespace baton::gateway {

// What does not change while a worker lives.
struct WorkerFacts {
  WorkerRole role = WorkerRole::kAny;
  Epoch epoch;
  std::string model_name;
  std::string model_digest;        // 32 raw bytes
  std::string header_digest;       // 32 raw bytes
  std::string layout_fingerprint;  // 32 raw bytes
  std::string numerics_id;
  std::string architecture;
  std::string file_type;
  uint32_t context_length = 0;
  uint64_t parameters = 0;
  uint64_t file_bytes = 0;
  uint32_t max_sequences = 0;
  uint64_t kv_blocks_total = 0;
};

struct WorkerLoad {
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t kv_blocks_total = 0;
  uint64_t kv_blocks_used = 0;
};

struct ProbeResult {
  absl::Status status;  // not ok: the worker did not answer; the rest is unset
  std::optional<WorkerFacts> facts;  // set if they were asked for
  WorkerLoad load;
  bool serving = false;  // health says SERVING
};

// Thread-safe.
class WorkerProbe {
 public:
  virtual ~WorkerProbe() = default;
  // Calls `done` once, on any thread, within `timeout`. Never blocks.
  virtual void Probe(const std::string& address, bool want_facts,
                     absl::Duration timeout,
                     std::function<void(ProbeResult)> done) = 0;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_WORKER_PROBE_H_
