// Starts a flow for each request and knows which are running. Thread-safe.
#ifndef BATON_GATEWAY_FLOW_FLOW_GENERATOR_H_
#define BATON_GATEWAY_FLOW_FLOW_GENERATOR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "gateway/flow/flow_metrics.h"
#include "gateway/flow/flow_runner.h"
#include "gateway/flow/generation.h"
#include "services/base/mutex.h"
#include "services/telemetry/metrics.h"

namespace baton::gateway {

// The text side of the served model; no tokenizer while it is not known.
struct FlowText {
  std::string model_name;
  std::shared_ptr<const text::Tokenizer> tokenizer;
};

class FlowGenerator final : public Generator {
 public:
  struct Options {
    RequestFlow::Options flow;
  };

  // `environment` and `metrics` must outlive this and all flows; `text` is
  // thread-safe.
  FlowGenerator(const Options& options, const FlowEnvironment& environment,
                telemetry::MetricsRegistry* metrics,
                std::function<FlowText()> text);

  std::shared_ptr<GenerationHandle> Start(
      GenerationSpec spec, std::shared_ptr<GenerationSink> sink) override;

  // Creates the model's metric series before its first request.
  void PrepareMetrics(const std::string& model_name);

  uint32_t running() const;
  // Waits until no flow runs or `timeout` has passed; returns what is left.
  uint32_t AwaitIdle(absl::Duration timeout);
  void CancelAll();

 private:
  std::shared_ptr<FlowMetrics> MetricsFor(const std::string& model_name);
  void OnEnded(FlowRunner* runner);

  const Options options_;
  const FlowEnvironment environment_;
  telemetry::MetricsRegistry* const metrics_;
  const std::function<FlowText()> text_;

  mutable Mutex mutex_;
  CondVar idle_;
  std::map<FlowRunner*, std::shared_ptr<FlowRunner>> running_
      ABSL_GUARDED_BY(mutex_);
  // A handful: one a model name that was ever served.
  std::map<std::string, std::shared_ptr<FlowMetrics>> by_model_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_FLOW_GENERATOR_H_
