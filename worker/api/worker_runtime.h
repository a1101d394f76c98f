// Everything of a worker between its model and its services: KV memory, the
// engine, the way to the store, and the threads that these block on.
#ifndef BATON_WORKER_API_WORKER_RUNTIME_H_
#define BATON_WORKER_API_WORKER_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/telemetry/metrics.h"
#include "worker/handoff/guarded_store.h"
#include "worker/handoff/worker_context.h"
#include "worker/model/model.h"
#include "worker/speculation/drafter.h"

namespace baton::worker {

class WorkerRuntime {
 public:
  struct Options {
    uint64_t kv_memory_bytes = uint64_t{1} << 30;
    uint32_t context_length = 0;  // 0 = the model's
    uint32_t max_sequences = 16;
    uint32_t max_batch_tokens = 512;
    int threads = 1;  // of the forward pass
    // How to draft (kMtp: only if the model has a block), tokens drafted in a
    // step at most (or, not adaptive, always), and how likely the MTP block
    // must think each.
    DraftMethods draft_methods;
    uint32_t most_drafts = 0;
    bool adaptive_drafts = true;
    float least_draft_probability = 0;
    absl::Duration lease_ttl = absl::Seconds(10);
    // How long a store that did not answer is left alone.
    absl::Duration store_pause = absl::Seconds(1);
    Epoch epoch;
  };

  // Maps the KV memory, runs one warm-up pass and starts the engine. Pointers
  // must outlive the result; `store` null = none. Errors: kInvalidArgument
  // (too little memory), kResourceExhausted, and the model's own.
  static absl::StatusOr<std::unique_ptr<WorkerRuntime>> Create(
      const Options& options, const Model* model, kvstore::KvStoreClient* store,
      const Clock* clock, telemetry::MetricsRegistry* metrics);
  ~WorkerRuntime();

  // For the AdmissionGate; lives as long as this.
  const WorkerContext& context() const { return context_; }

  // Cancels all sequences, then joins all threads; blocks queued for the store
  // are still published, and leases given back. Idempotent.
  void Stop();

 private:
  WorkerRuntime(const Options& options, const Model* model, const Clock* clock);
  absl::Status BuildEngine(telemetry::MetricsRegistry* metrics);
  absl::Status WarmUp();
  std::unique_ptr<Drafter> MakeDrafter() const;
  absl::Status BuildHandoff(kvstore::KvStoreClient* store,
                            telemetry::MetricsRegistry* metrics);

  const Options options_;
  const Model* const model_;
  const Clock* const clock_;
  WorkerContext context_;

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<HandoffMetrics> handoff_metrics_;
  std::unique_ptr<GuardedStore> store_;
  std::unique_ptr<LeaseBook> leases_;
  std::unique_ptr<PrefixRestorer> restorer_;
  std::unique_ptr<HandoffImporter> importer_;
  std::unique_ptr<Drafter> drafter_;  // null = none
  std::unique_ptr<Engine> engine_;
  // Apart, so that a slow store delays neither heartbeats nor, by publishing,
  // handoffs. Last: their tasks use all of the above.
  std::unique_ptr<ThreadPoolExecutor> heartbeats_;
  std::unique_ptr<ThreadPoolExecutor> publishes_;
  std::unique_ptr<ThreadPoolExecutor> fetchers_;
  std::unique_ptr<ThreadPoolExecutor> imports_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_API_WORKER_RUNTIME_H_
