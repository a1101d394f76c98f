#include "gateway/flow/flow_metrics.h"

#include "absl/strings/ascii.h"

namespace baton::gateway {
namespace {

constexpr char kTtft[] = "baton_time_to_first_token_seconds";
constexpr const char* kApis[] = {"chat", "completions", "grpc"};
constexpr const char* kOutcomes[] = {"ok", "client_error", "server_error",
                                     "cancelled", "rejected"};
constexpr const char* kRetryReasons[] = {"unavailable", "aborted",
                                         "internal",    "resource_exhausted",
                                         "data_loss",   "deadline_exceeded"};

// A client that leaves is no error; a refusal is no failure.
const char* OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      return "cancelled";
    case absl::StatusCode::kResourceExhausted:
      return "rejected";
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return "client_error";
    default:
      return "server_error";
  }
}

const char* CacheLabel(const GenerationReport& report) {
  const uint32_t cached = report.sources.local_cache + report.sources.kv_store;
  if (cached == 0) return "miss";
  // At least the last prompt token is always computed.
  return cached + 1 >= report.prompt_tokens ? "hit" : "partial";
}

const char* FinishName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAborted:
      return "aborted";
  }
  return "aborted";
}

}  // namespace

FlowMetrics::FlowMetrics(telemetry::MetricsRegistry* registry,
                         const std::string& model_name)
    : registry_(registry), model_name_(model_name) {
  const telemetry::Labels model = {{"model_name", model_name}};
  auto with = [&](const char* label, const char* value) {
    telemetry::Labels labels = model;
    labels[label] = value;
    return labels;
  };
  for (FlowState state :
       {FlowState::kQueued, FlowState::kReserving, FlowState::kPrefilling,
        FlowState::kTransferring, FlowState::kDecoding}) {
    stages_[state] =
        registry->GetGauge("baton_requests_inflight", "Live requests by stage",
                           with("stage", FlowStateName(state)));
  }
  for (FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kAborted}) {
    finishes_[reason] = registry->GetCounter(
        "baton_request_finish_total", "Answers by the reason of their end",
        with("finish_reason", FinishName(reason)));
  }
  for (const char* cache : {"hit", "partial", "miss"}) {
    ttft_[cache] = registry->GetHistogram(kTtft, "Arrival to first token",
                                          telemetry::TimeToFirstTokenBuckets(),
                                          with("cache", cache));
  }
  itl_ = registry->GetHistogram("baton_inter_token_latency_seconds",
                                "Time between tokens",
                                telemetry::InterTokenBuckets(), model);
  tpot_ = registry->GetHistogram("baton_request_time_per_output_token_seconds",
                                 "Mean time per token of a request",
                                 telemetry::InterTokenBuckets(), model);
  e2e_ = registry->GetHistogram("baton_e2e_request_latency_seconds",
                                "Arrival to the end of the answer",
                                telemetry::RequestBuckets(), model);
  queue_ = registry->GetHistogram(
      "baton_request_queue_time_seconds", "Time spent waiting",
      telemetry::RequestBuckets(), with("phase", "gateway"));
  const auto overhead = [&](const char* stage) {
    return registry->GetHistogram(
        "baton_gateway_overhead_seconds", "What the gateway itself adds",
        telemetry::OverheadBuckets(), with("stage", stage));
  };
  request_overhead_ = overhead("request");
  token_overhead_ = overhead("token");
  reservation_ =
      registry->GetHistogram("baton_gateway_reservation_seconds",
                             "From a reservation to the decode worker's answer",
                             telemetry::OverheadBuckets(), model);
  prompt_tokens_ =
      registry->GetHistogram("baton_request_prompt_tokens", "Prompt lengths",
                             telemetry::TokenBuckets(), model);
  generation_tokens_ = registry->GetHistogram("baton_request_generation_tokens",
                                              "Answer lengths",
                                              telemetry::TokenBuckets(), model);
  for (const char* api : kApis) {
    for (const char* outcome : kOutcomes) Outcome(api, outcome);
  }
  for (const char* phase : {"prefill", "decode"}) {
    for (const char* reason : kRetryReasons) {
      telemetry::Labels labels = with("phase", phase);
      labels["reason"] = reason;
      registry->GetCounter("baton_request_retries_total",
                           "Work sent to a worker again", labels);
    }
  }
}

telemetry::Gauge* FlowMetrics::Stage(FlowState state) const {
  auto it = stages_.find(state);
  return it == stages_.end() ? nullptr : it->second;
}

telemetry::Counter* FlowMetrics::Outcome(const std::string& api,
                                         const char* outcome) {
  return registry_->GetCounter(
      "baton_requests_total", "Finished requests",
      {{"model_name", model_name_}, {"api", api}, {"outcome", outcome}});
}

void FlowMetrics::OnStage(FlowState from, FlowState to) {
  if (from == to) return;
  if (telemetry::Gauge* gauge = Stage(from)) gauge->Add(-1);
  if (telemetry::Gauge* gauge = Stage(to)) gauge->Add(1);
}

void FlowMetrics::OnTokens(absl::Duration gap, size_t tokens) {
  const double each = absl::ToDoubleSeconds(gap) / tokens;
  for (size_t i = 0; i < tokens; ++i) itl_->Observe(each);
}

void FlowMetrics::OnPromptSent(absl::Duration overhead) {
  request_overhead_->Observe(absl::ToDoubleSeconds(overhead));
}

void FlowMetrics::OnReserved(absl::Duration round_trip) {
  reservation_->Observe(absl::ToDoubleSeconds(round_trip));
}

void FlowMetrics::OnTokensSent(absl::Duration overhead) {
  token_overhead_->Observe(absl::ToDoubleSeconds(overhead));
}

void FlowMetrics::OnRetry(const CountRetry& retry) {
  const std::string reason =
      absl::AsciiStrToLower(absl::StatusCodeToString(retry.code));
  registry_
      ->GetCounter("baton_request_retries_total", "Work sent to a worker again",
                   {{"model_name", model_name_},
                    {"phase", retry.phase},
                    {"reason", reason}})
      ->Increment();
}

void FlowMetrics::OnEnd(const std::string& api, const GenerationReport& report,
                        absl::Duration total) {
  Outcome(api, "ok")->Increment();
  finishes_.at(report.finish_reason)->Increment();
  ttft_.at(CacheLabel(report))
      ->Observe(absl::ToDoubleSeconds(report.time_to_first_token));
  e2e_->Observe(absl::ToDoubleSeconds(total));
  queue_->Observe(absl::ToDoubleSeconds(report.queue));
  prompt_tokens_->Observe(report.prompt_tokens);
  generation_tokens_->Observe(report.completion_tokens);
  if (report.completion_tokens > 1) {
    tpot_->Observe(absl::ToDoubleSeconds(report.decode) /
                   (report.completion_tokens - 1));
  }
}

void FlowMetrics::OnError(const std::string& api, const absl::Status& status) {
  Outcome(api, OutcomeOf(status))->Increment();
}

}  // namespace baton::gateway
