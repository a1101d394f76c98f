#include "worker/engine/engine_metrics.h"

#include "absl/strings/str_cat.h"

namespace baton::worker {
namespace {

// Counted apart; later ones only in the total.
constexpr uint32_t kDraftPositions = 16;

}  // namespace

EngineMetrics::EngineMetrics(telemetry::MetricsRegistry* registry,
                             const std::string& model_name,
                             const std::string& kv_dtype, const BlockPool& pool,
                             const Drafter* drafter) {
  const telemetry::Labels model = {{"model_name", model_name}};
  const telemetry::Labels host = {{"model_name", model_name}, {"tier", "host"}};
  const auto step = [&](const std::string& phase) {
    const telemetry::Labels labels = {{"model_name", model_name},
                                      {"phase", phase}};
    return StepMetrics{
        registry->GetHistogram("baton_step_duration_seconds",
                               "Duration of one forward pass",
                               telemetry::InterTokenBuckets(), labels),
        registry->GetHistogram("baton_step_tokens", "Rows of one forward pass",
                               telemetry::TokenBuckets(), labels)};
  };
  const auto time = [&](absl::string_view name, absl::string_view help) {
    return registry->GetHistogram(name, help, telemetry::RequestBuckets(),
                                  model);
  };
  decode_ = step("decode");
  prefill_ = step("prefill");
  mixed_ = step("mixed");
  running_ = registry->GetGauge("baton_requests_running",
                                "Sequences in the current batch", model);
  waiting_ = registry->GetGauge("baton_requests_waiting",
                                "Sequences not yet scheduled", model);
  usage_ = registry->GetGauge("baton_kv_cache_usage_ratio",
                              "Share of the KV blocks in use", host);
  evictions_ = registry->GetCounter("baton_kv_cache_evictions_total",
                                    "Cached KV blocks evicted", host);
  preemptions_ = registry->GetCounter(
      "baton_preemptions_total", "Sequences that gave up their blocks", model);
  generated_ = registry->GetCounter("baton_generation_tokens_total",
                                    "Tokens committed", model);
  token_gap_ = registry->GetHistogram("baton_inter_token_latency_seconds",
                                      "Gap between tokens of a sequence",
                                      telemetry::InterTokenBuckets(), model);
  queue_time_ = time("baton_request_queue_time_seconds",
                     "From submission to the first row");
  prefill_time_ = time("baton_request_prefill_time_seconds",
                       "From the first row to the first new token");
  decode_time_ = time("baton_request_decode_time_seconds",
                      "From the first new token to the last");
  registry
      ->GetGauge("baton_cache_config_info", "Shape of the KV pool",
                 {{"model_name", model_name},
                  {"block_size", absl::StrCat(pool.block_tokens())},
                  {"num_gpu_blocks", absl::StrCat(pool.Stats().total)},
                  {"dtype", kv_dtype}})
      ->Set(1);
  if (drafter == nullptr) return;
  for (const DraftMethod method : kDraftMethods) {
    if (!drafter->methods().Has(method)) continue;
    drafts_[method] = MakeDraftMetrics(registry, model_name, method);
  }
}

EngineMetrics::DraftMetrics EngineMetrics::MakeDraftMetrics(
    telemetry::MetricsRegistry* registry, const std::string& model_name,
    DraftMethod method) {
  const telemetry::Labels labels = {
      {"model_name", model_name},
      {"method", std::string(DraftMethodName(method))}};
  DraftMetrics metrics;
  metrics.verified = registry->GetCounter(
      "baton_spec_decode_drafts_total", "Steps that verified a draft", labels);
  metrics.drafted =
      registry->GetCounter("baton_spec_decode_draft_tokens_total",
                           "Drafted tokens that were verified", labels);
  metrics.accepted =
      registry->GetCounter("baton_spec_decode_accepted_tokens_total",
                           "Drafted tokens that were accepted", labels);
  for (uint32_t i = 0; i < kDraftPositions; ++i) {
    telemetry::Labels at = labels;
    at["position"] = absl::StrCat(i);
    metrics.accepted_at.push_back(registry->GetCounter(
        "baton_spec_decode_accepted_tokens_per_position_total",
        "Drafted tokens that were accepted, by their place in the draft", at));
  }
  return metrics;
}

void EngineMetrics::OnDraft(DraftMethod method, uint32_t drafted,
                            uint32_t accepted) {
  const DraftMetrics& metrics = drafts_.at(method);
  metrics.verified->Increment();
  metrics.drafted->Increment(drafted);
  metrics.accepted->Increment(accepted);
  for (uint32_t i = 0; i < accepted && i < kDraftPositions; ++i) {
    metrics.accepted_at[i]->Increment();
  }
}

void EngineMetrics::OnStep(absl::Duration duration, uint32_t decode_rows,
                           uint32_t prefill_rows) {
  const StepMetrics& phase = prefill_rows == 0  ? decode_
                             : decode_rows == 0 ? prefill_
                                                : mixed_;
  phase.duration->Observe(absl::ToDoubleSeconds(duration));
  phase.tokens->Observe(static_cast<double>(decode_rows) + prefill_rows);
}

void EngineMetrics::OnToken(const LiveSequence& sequence) {
  generated_->Increment();
  if (sequence.timings().generated_tokens > 1) {
    token_gap_->Observe(absl::ToDoubleSeconds(sequence.last_gap()));
  }
}

void EngineMetrics::OnFinished(const SequenceTimings& timings) {
  if (timings.generated_tokens == 0) return;  // never had its first token
  queue_time_->Observe(absl::ToDoubleSeconds(timings.queue));
  prefill_time_->Observe(absl::ToDoubleSeconds(timings.prefill));
  decode_time_->Observe(absl::ToDoubleSeconds(timings.decode));
}

void EngineMetrics::SetLoad(uint32_t running, uint32_t waiting) {
  running_->Set(running);
  waiting_->Set(waiting);
}

void EngineMetrics::SetPool(const BlockPoolStats& stats) {
  usage_->Set(static_cast<double>(stats.held) /
              static_cast<double>(stats.total));
  evictions_->Increment(static_cast<double>(stats.evictions - evictions_seen_));
  evictions_seen_ = stats.evictions;
}

}  // namespace baton::worker
