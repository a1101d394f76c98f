// What the gateway counts about requests. Tokens are counted here once, where
// they are committed. Thread-safe.
#ifndef BATON_GATEWAY_FLOW_FLOW_METRICS_H_
#define BATON_GATEWAY_FLOW_FLOW_METRICS_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gateway/flow/generation.h"
#include "gateway/flow/request_flow.h"
#include "services/telemetry/metrics.h"

namespace baton::gateway {

class FlowMetrics {
 public:
  // All series of the model exist from here on. `registry` must outlive this.
  FlowMetrics(telemetry::MetricsRegistry* registry,
              const std::string& model_name);

  void OnStage(FlowState from, FlowState to);
  // `tokens` tokens came `gap` after those before them.
  void OnTokens(absl::Duration gap, size_t tokens);
  // What the gateway itself added: from a request's last byte to its prompt's
  // way to a worker, without the wait for a place and for the reservation's
  // answer; from a worker's event to the client's bytes.
  void OnPromptSent(absl::Duration overhead);
  void OnReserved(absl::Duration round_trip);
  void OnTokensSent(absl::Duration overhead);
  void OnRetry(const CountRetry& retry);
  void OnEnd(const std::string& api, const GenerationReport& report,
             absl::Duration total);
  void OnError(const std::string& api, const absl::Status& status);

 private:
  telemetry::Gauge* Stage(FlowState state) const;
  telemetry::Counter* Outcome(const std::string& api, const char* outcome);

  telemetry::MetricsRegistry* const registry_;
  const std::string model_name_;
  std::map<FlowState, telemetry::Gauge*> stages_;
  std::map<FinishReason, telemetry::Counter*> finishes_;
  std::map<std::string, telemetry::Histogram*> ttft_;  // by cache label
  telemetry::Histogram* itl_;
  telemetry::Histogram* tpot_;
  telemetry::Histogram* e2e_;
  telemetry::Histogram* queue_;
  telemetry::Histogram* request_overhead_;
  telemetry::Histogram* token_overhead_;
  telemetry::Histogram* reservation_;
  telemetry::Histogram* prompt_tokens_;
  telemetry::Histogram* generation_tokens_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_FLOW_METRICS_H_
