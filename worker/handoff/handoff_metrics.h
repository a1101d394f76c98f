// The counters of restoring, importing and publishing KV rows. One object a
// worker; every series exists from the start.
#ifndef BATON_WORKER_HANDOFF_HANDOFF_METRICS_H_
#define BATON_WORKER_HANDOFF_HANDOFF_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/telemetry/metrics.h"

namespace baton::worker {

// Where the rows of a prompt came from; the three sum to its tokens.
struct PromptSources {
  uint32_t computed = 0;
  uint32_t local_cache = 0;
  uint32_t kv_store = 0;

  // Of `prompt` tokens, `computed` were computed and up to `restored` came
  // from the store (fewer, if some of them had to be computed after all); what
  // is left was in this worker's pool.
  static PromptSources Of(uint32_t prompt, uint32_t computed,
                          uint32_t restored);
};

// Why rows could not be had from the store, as a metric label: crc, expired,
// missing, no_room, cancelled, unavailable.
absl::string_view CauseOf(const absl::Status& status);

// Immutable; thread-safe. `metrics` must outlive it.
class HandoffMetrics {
 public:
  HandoffMetrics(telemetry::MetricsRegistry* metrics,
                 const std::string& model_name);

  // A handoff of which some rows were computed again. The cause is CauseOf a
  // status, or not_published (the manifest names no rows).
  telemetry::Counter* Fallback(absl::string_view cause) const;
  // A look-up or fetch of a prefix that ended early.
  telemetry::Counter* Restore(const absl::Status& status) const;
  // A block that was not published: CauseOf a status, or queue_full.
  telemetry::Counter* PublishFailure(absl::string_view cause) const;
  // Draft rows that a prefix lacks, so that its sequence is not drafted for by
  // the MTP block: CauseOf a status, not_published, other_head.
  telemetry::Counter* DraftLoss(absl::string_view cause) const;
  // Once for each finished prompt.
  void CountPrompt(const PromptSources& sources) const;

 private:
  using Family = std::map<std::string, telemetry::Counter*>;
  static telemetry::Counter* Find(const Family& family,
                                  absl::string_view cause);

  Family fallbacks_;
  Family restores_;
  Family publishes_;
  Family draft_losses_;
  telemetry::Counter* computed_;
  telemetry::Counter* local_cache_;
  telemetry::Counter* kv_store_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_HANDOFF_METRICS_H_
