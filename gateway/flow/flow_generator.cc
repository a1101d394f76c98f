#include "gateway/flow/flow_generator.h"

#include <utility>
#include <vector>

#include "services/base/error_details.h"

namespace baton::gateway {
namespace {

// For requests that never became a flow.
class EndedHandle final : public GenerationHandle {
 public:
  void Cancel() override {}
};

}  // namespace

FlowGenerator::FlowGenerator(const Options& options,
                             const FlowEnvironment& environment,
                             telemetry::MetricsRegistry* metrics,
                             std::function<FlowText()> text)
    : options_(options),
      environment_(environment),
      metrics_(metrics),
      text_(std::move(text)) {}

std::shared_ptr<GenerationHandle> FlowGenerator::Start(
    GenerationSpec spec, std::shared_ptr<GenerationSink> sink) {
  const FlowText text = text_();
  if (text.tokenizer == nullptr) {
    sink->OnError(WithRetryAfter(
        WithReason(absl::UnavailableError("no model is known yet"),
                   "model_loading"),
        absl::Seconds(2)));
    return std::make_shared<EndedHandle>();
  }
  auto runner = FlowRunner::Create(
      environment_, options_.flow,
      std::make_shared<const GenerationSpec>(std::move(spec)), text.tokenizer,
      MetricsFor(text.model_name), sink,
      [this](FlowRunner* ended) { OnEnded(ended); });
  {
    MutexLock lock(&mutex_);
    running_[runner.get()] = runner;
  }
  if (!runner->Start()) {
    OnEnded(runner.get());
    sink->OnError(WithReason(absl::UnavailableError("the gateway is stopping"),
                             "draining"));
  }
  return runner;
}

void FlowGenerator::PrepareMetrics(const std::string& model_name) {
  MetricsFor(model_name);
}

std::shared_ptr<FlowMetrics> FlowGenerator::MetricsFor(
    const std::string& model_name) {
  MutexLock lock(&mutex_);
  std::shared_ptr<FlowMetrics>& metrics = by_model_[model_name];
  if (metrics == nullptr) {
    metrics = std::make_shared<FlowMetrics>(metrics_, model_name);
  }
  return metrics;
}

void FlowGenerator::OnEnded(FlowRunner* runner) {
  std::shared_ptr<FlowRunner> last;  // freed after the lock
  MutexLock lock(&mutex_);
  auto it = running_.find(runner);
  if (it == running_.end()) return;
  last = std::move(it->second);
  running_.erase(it);
  if (running_.empty()) idle_.SignalAll();
}

uint32_t FlowGenerator::running() const {
  MutexLock lock(&mutex_);
  return static_cast<uint32_t>(running_.size());
}

uint32_t FlowGenerator::AwaitIdle(absl::Duration timeout) {
  const absl::Duration until = environment_.clock->Monotonic() + timeout;
  MutexLock lock(&mutex_);
  while (!running_.empty()) {
    const absl::Duration left = until - environment_.clock->Monotonic();
    if (left <= absl::ZeroDuration()) break;
    idle_.WaitWithTimeout(&mutex_, left);
  }
  return static_cast<uint32_t>(running_.size());
}

void FlowGenerator::CancelAll() {
  std::vector<std::shared_ptr<FlowRunner>> all;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, runner] : running_) all.push_back(runner);
  }
  for (const auto& runner : all) runner->Cancel();
}

}  // namespace baton::gateway
