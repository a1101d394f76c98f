#include "worker/handoff/handoff_metrics.h"

#include <algorithm>

namespace baton::worker {
namespace {

constexpr const char* kCauses[] = {"crc",        "expired",       "missing",
                                   "no_room",    "cancelled",     "unavailable",
                                   "queue_full", "not_published", "other_head"};

}  // namespace

PromptSources PromptSources::Of(uint32_t prompt, uint32_t computed,
                                uint32_t restored) {
  PromptSources sources;
  sources.computed = std::min(computed, prompt);
  sources.kv_store = std::min(restored, prompt - sources.computed);
  sources.local_cache = prompt - sources.computed - sources.kv_store;
  return sources;
}

absl::string_view CauseOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return "crc";
    case absl::StatusCode::kAborted:
      return "expired";
    case absl::StatusCode::kNotFound:
      return "missing";
    case absl::StatusCode::kResourceExhausted:
      return "no_room";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    default:
      return "unavailable";
  }
}

HandoffMetrics::HandoffMetrics(telemetry::MetricsRegistry* metrics,
                               const std::string& model_name) {
  for (const char* cause : kCauses) {
    const telemetry::Labels labels = {{"model_name", model_name},
                                      {"reason", cause}};
    fallbacks_[cause] = metrics->GetCounter(
        "baton_handoff_fallbacks_total",
        "Handoffs of which rows were computed again, by cause", labels);
    restores_[cause] = metrics->GetCounter(
        "baton_prefix_restore_failures_total",
        "Prefixes whose restoration from the store ended early", labels);
    publishes_[cause] = metrics->GetCounter(
        "baton_kv_publish_failures_total",
        "Blocks that were not published to the store, by cause", labels);
  }
  for (const char* cause : kCauses) {
    draft_losses_[cause] = metrics->GetCounter(
        "baton_draft_state_losses_total",
        "Prefixes that came without their MTP rows, by cause: their sequences "
        "are not drafted for by the MTP block",
        {{"model_name", model_name}, {"reason", cause}});
  }
  const auto source = [&](const char* name) {
    return metrics->GetCounter("baton_prompt_tokens_total",
                               "Prompt tokens, by where their rows came from",
                               {{"model_name", model_name}, {"source", name}});
  };
  computed_ = source("computed");
  local_cache_ = source("local_cache");
  kv_store_ = source("kv_store");
}

telemetry::Counter* HandoffMetrics::Find(const Family& family,
                                         absl::string_view cause) {
  auto it = family.find(std::string(cause));
  return it == family.end() ? family.at("unavailable") : it->second;
}

telemetry::Counter* HandoffMetrics::Fallback(absl::string_view cause) const {
  return Find(fallbacks_, cause);
}

telemetry::Counter* HandoffMetrics::Restore(const absl::Status& status) const {
  return Find(restores_, CauseOf(status));
}

telemetry::Counter* HandoffMetrics::DraftLoss(absl::string_view cause) const {
  return Find(draft_losses_, cause);
}

telemetry::Counter* HandoffMetrics::PublishFailure(
    absl::string_view cause) const {
  return Find(publishes_, cause);
}

void HandoffMetrics::CountPrompt(const PromptSources& sources) const {
  computed_->Increment(sources.computed);
  local_cache_->Increment(sources.local_cache);
  kv_store_->Increment(sources.kv_store);
}

}  // namespace baton::worker
