// One running request: performs what its RequestFlow decides. All of it runs
// on one strand, so nothing here needs a lock.
#ifndef BATON_GATEWAY_FLOW_FLOW_RUNNER_H_
#define BATON_GATEWAY_FLOW_FLOW_RUNNER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "gateway/admission/admission_gate.h"
#include "gateway/flow/flow_metrics.h"
#include "gateway/flow/generation.h"
#include "gateway/flow/request_flow.h"
#include "gateway/flow/worker_clients.h"
#include "gateway/registry/worker_registry.h"
#include "gateway/routing/router.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/text/tokenizer.h"

namespace baton::gateway {

// What every flow uses; all outlive the flows.
struct FlowEnvironment {
  WorkerRegistry* registry = nullptr;
  AdmissionGate* gate = nullptr;
  PrefillClient* prefill = nullptr;
  DecodeClient* decode = nullptr;
  const Router* router = nullptr;
  const Clock* clock = nullptr;
  Executor* executor = nullptr;
};

// Thread-safe.
class FlowRunner final : public GenerationHandle,
                         public std::enable_shared_from_this<FlowRunner> {
 public:
  // `on_ended` is called once, when the sink has had its last call and every
  // worker stream has ended.
  static std::shared_ptr<FlowRunner> Create(
      const FlowEnvironment& environment, const RequestFlow::Options& options,
      std::shared_ptr<const GenerationSpec> spec,
      std::shared_ptr<const text::Tokenizer> tokenizer,
      std::shared_ptr<FlowMetrics> metrics,
      std::shared_ptr<GenerationSink> sink,
      std::function<void(FlowRunner*)> on_ended);

  // May call the sink before it returns. False if the executor has stopped;
  // then the sink is not called.
  bool Start();
  void Cancel() override;

 private:
  // A worker stream until its WorkerClosed has come.
  struct OpenStream {
    std::shared_ptr<WorkerStream> stream;
    std::shared_ptr<DecodeStream> decode;  // the same, if it decodes
    WorkerId worker;
  };

  FlowRunner(const FlowEnvironment& environment,
             const RequestFlow::Options& options,
             std::shared_ptr<const GenerationSpec> spec,
             std::shared_ptr<const text::Tokenizer> tokenizer,
             std::shared_ptr<FlowMetrics> metrics,
             std::shared_ptr<GenerationSink> sink,
             std::function<void(FlowRunner*)> on_ended);

  // On the strand.
  void Admit();
  // `received`: when the event came.
  void HandleWorkerEvent(StreamNumber stream, const WorkerEvent& event,
                         absl::Duration received);
  // Counts once how long the prompt took to get on its way.
  void OnPromptSent();
  void OnTimer(absl::Duration armed);
  // Calls `step` with the world as it is, then performs what it says.
  void Step(const std::function<FlowActions(const FlowContext&)>& step);
  void ArmTimer();
  WorkerEventSink SinkFor(StreamNumber stream);
  void Forget(StreamNumber stream);
  void End();
  void ReportEndOnce();

  void Perform(const OpenDecode& action);
  void Perform(const OpenPrefill& action);
  void Perform(const StartDecode& action);
  void Perform(const CloseStream& action);
  void Perform(const EmitProgress& action);
  void Perform(const EmitText& action);
  void Perform(const EndAnswer& action);
  void Perform(const FailAnswer& action);
  void Perform(const SuspectWorker& action);
  void Perform(const CountRetry& action);

  const FlowEnvironment environment_;
  const std::shared_ptr<const GenerationSpec> spec_;
  const std::shared_ptr<FlowMetrics> metrics_;
  const std::shared_ptr<Strand> strand_;
  std::function<void(FlowRunner*)> on_ended_;

  // On the strand only.
  RequestFlow flow_;
  std::shared_ptr<GenerationSink> sink_;
  std::map<StreamNumber, OpenStream> streams_;
  std::optional<AdmissionQueue::Ticket> ticket_;
  FlowState stage_ = FlowState::kDone;  // as last reported to the metrics
  absl::Duration armed_ = absl::InfiniteDuration();
  std::optional<absl::Duration> last_tokens_at_;
  absl::Duration waited_;  // for a place and for reservations
  std::optional<absl::Duration> reserve_sent_;  // while one is awaited
  absl::Duration event_received_;  // of the event that is being handled
  bool prompt_sent_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_FLOW_RUNNER_H_
