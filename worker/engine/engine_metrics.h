// The engine's metrics, all created at start with their label values.
// Thread-safe.
#ifndef BATON_WORKER_ENGINE_ENGINE_METRICS_H_
#define BATON_WORKER_ENGINE_ENGINE_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/telemetry/metrics.h"
#include "worker/cache/block_pool.h"
#include "worker/engine/live_sequence.h"
#include "worker/speculation/drafter.h"

namespace baton::worker {

class EngineMetrics {
 public:
  EngineMetrics(telemetry::MetricsRegistry* registry,
                const std::string& model_name, const std::string& kv_dtype,
                const BlockPool& pool, const Drafter* drafter = nullptr);

  // One forward pass. Its phase is that of its rows, or "mixed".
  void OnStep(absl::Duration duration, uint32_t decode_rows,
              uint32_t prefill_rows);
  void OnPreempted() { preemptions_->Increment(); }
  // After a commit; the sequence's first new token has no gap before it.
  void OnToken(const LiveSequence& sequence);
  // A step that verified drafts of one sequence.
  void OnDraft(DraftMethod method, uint32_t drafted, uint32_t accepted);
  void OnFinished(const SequenceTimings& timings);
  void SetLoad(uint32_t running, uint32_t waiting);
  void SetPool(const BlockPoolStats& stats);

 private:
  // Of one phase: "decode", "prefill", "mixed".
  struct StepMetrics {
    telemetry::Histogram* duration;
    telemetry::Histogram* tokens;
  };

  struct DraftMetrics {
    telemetry::Counter* verified;
    telemetry::Counter* drafted;
    telemetry::Counter* accepted;
    std::vector<telemetry::Counter*> accepted_at;  // by place in the draft
  };
  static DraftMetrics MakeDraftMetrics(telemetry::MetricsRegistry* registry,
                                       const std::string& model_name,
                                       DraftMethod method);

  StepMetrics decode_;
  StepMetrics prefill_;
  StepMetrics mixed_;
  telemetry::Gauge* running_;
  telemetry::Gauge* waiting_;
  telemetry::Gauge* usage_;
  telemetry::Counter* evictions_;
  telemetry::Counter* preemptions_;
  telemetry::Counter* generated_;
  telemetry::Histogram* token_gap_;
  telemetry::Histogram* queue_time_;
  telemetry::Histogram* prefill_time_;
  telemetry::Histogram* decode_time_;
  // By method, of those that the worker drafts with.
  std::map<DraftMethod, DraftMetrics> drafts_;
  uint64_t evictions_seen_ = 0;  // device thread only
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ENGINE_ENGINE_METRICS_H_
