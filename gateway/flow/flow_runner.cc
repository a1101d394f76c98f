#include "gateway/flow/flow_runner.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "services/base/log.h"
#include "services/base/random.h"

namespace baton::gateway {
namespace {

// How long a worker that has said its last word may take to end its stream.
constexpr absl::Duration kCloseGrace = absl::Seconds(1);

}  // namespace

std::shared_ptr<FlowRunner> FlowRunner::Create(
    const FlowEnvironment& environment, const RequestFlow::Options& options,
    std::shared_ptr<const GenerationSpec> spec,
    std::shared_ptr<const text::Tokenizer> tokenizer,
    std::shared_ptr<FlowMetrics> metrics, std::shared_ptr<GenerationSink> sink,
    std::function<void(FlowRunner*)> on_ended) {
  return std::shared_ptr<FlowRunner>(new FlowRunner(
      environment, options, std::move(spec), std::move(tokenizer),
      std::move(metrics), std::move(sink), std::move(on_ended)));
}

FlowRunner::FlowRunner(const FlowEnvironment& environment,
                       const RequestFlow::Options& options,
                       std::shared_ptr<const GenerationSpec> spec,
                       std::shared_ptr<const text::Tokenizer> tokenizer,
                       std::shared_ptr<FlowMetrics> metrics,
                       std::shared_ptr<GenerationSink> sink,
                       std::function<void(FlowRunner*)> on_ended)
    : environment_(environment),
      spec_(spec),
      metrics_(std::move(metrics)),
      strand_(Strand::Create(environment.executor)),
      on_ended_(std::move(on_ended)),
      flow_(options, std::move(spec), RandomName("ho-"), environment.router,
            std::move(tokenizer)),
      sink_(std::move(sink)) {}

bool FlowRunner::Start() {
  return strand_->Dispatch([self = shared_from_this()] { self->Admit(); });
}

void FlowRunner::Cancel() {
  strand_->Post([self = shared_from_this()] {
    self->Step([&](const FlowContext&) { return self->flow_.OnCancel(); });
  });
}

// Runs on the strand so that `ticket_` is set before the admission, which
// comes as a later task, is looked at.
void FlowRunner::Admit() {
  metrics_->OnStage(stage_, FlowState::kQueued);
  stage_ = FlowState::kQueued;
  const absl::Duration entered = environment_.clock->Monotonic();
  auto ticket = environment_.gate->Enter([self = shared_from_this(), entered] {
    const absl::Duration waited =
        self->environment_.clock->Monotonic() - entered;
    self->strand_->Post([self, waited] {
      self->waited_ += waited;
      self->Step([&](const FlowContext& context) {
        return self->flow_.OnAdmitted(context);
      });
    });
  });
  if (ticket.ok()) {
    ticket_ = *ticket;
    ArmTimer();
    return;
  }
  Step([&](const FlowContext&) { return flow_.OnRefused(ticket.status()); });
}

void FlowRunner::HandleWorkerEvent(StreamNumber stream,
                                   const WorkerEvent& event,
                                   absl::Duration received) {
  event_received_ = received;
  if (reserve_sent_.has_value()) {
    const absl::Duration reservation = received - *reserve_sent_;
    reserve_sent_.reset();
    waited_ += reservation;
    metrics_->OnReserved(reservation);
  }
  Step([&](const FlowContext& context) {
    return flow_.OnWorkerEvent(stream, event, context);
  });
  if (std::holds_alternative<WorkerClosed>(event)) Forget(stream);
}

void FlowRunner::OnTimer(absl::Duration armed) {
  if (armed != armed_) return;  // an earlier one took its place
  armed_ = absl::InfiniteDuration();
  Step([&](const FlowContext& context) { return flow_.OnTick(context); });
}

void FlowRunner::Step(
    const std::function<FlowActions(const FlowContext&)>& step) {
  const auto snapshot = environment_.registry->Snapshot();
  const FlowActions actions =
      step({environment_.clock->Monotonic(), snapshot.get()});
  // The place is free before the client hears the end, so that a client that
  // sends its next request at once finds it.
  if (flow_.ended() && ticket_.has_value()) {
    environment_.gate->Leave(*ticket_);
    ticket_.reset();
  }
  metrics_->OnStage(stage_, flow_.state());
  stage_ = flow_.state();
  for (const FlowAction& action : actions) {
    std::visit([this](const auto& one) { Perform(one); }, action);
  }
  ArmTimer();
}

void FlowRunner::ArmTimer() {
  const absl::Duration wake = flow_.NextWake();
  if (wake >= armed_ || wake == absl::InfiniteDuration()) return;
  armed_ = wake;
  const absl::Duration delay =
      std::max(absl::ZeroDuration(), wake - environment_.clock->Monotonic());
  // Weak: an ended request need not live until its last timer.
  strand_->PostAfter(delay, [weak = weak_from_this(), wake] {
    if (auto self = weak.lock()) self->OnTimer(wake);
  });
}

WorkerEventSink FlowRunner::SinkFor(StreamNumber stream) {
  return [self = shared_from_this(), stream](WorkerEvent event) {
    const absl::Duration received = self->environment_.clock->Monotonic();
    self->strand_->Dispatch([self, stream, received, event = std::move(event)] {
      self->HandleWorkerEvent(stream, event, received);
    });
  };
}

void FlowRunner::Forget(StreamNumber stream) {
  auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  environment_.registry->AddInflight(it->second.worker, -1);
  streams_.erase(it);
  ReportEndOnce();
}

void FlowRunner::Perform(const OpenDecode& action) {
  environment_.registry->AddInflight(action.worker.id, 1);
  auto stream = environment_.decode->Open(action.worker.address, action.request,
                                          SinkFor(action.stream));
  streams_[action.stream] = {stream, stream, action.worker.id};
  if (!prompt_sent_) reserve_sent_ = environment_.clock->Monotonic();
}

void FlowRunner::Perform(const OpenPrefill& action) {
  environment_.registry->AddInflight(action.worker.id, 1);
  auto stream = environment_.prefill->Prefill(
      action.worker.address, action.request, SinkFor(action.stream));
  streams_[action.stream] = {std::move(stream), nullptr, action.worker.id};
  OnPromptSent();
}

void FlowRunner::Perform(const StartDecode& action) {
  auto it = streams_.find(action.stream);
  if (it == streams_.end()) return;  // closed; its last event is on the way
  it->second.decode->StartDecode(action.committed, action.manifest);
  OnPromptSent();
}

void FlowRunner::OnPromptSent() {
  if (std::exchange(prompt_sent_, true)) return;
  metrics_->OnPromptSent(environment_.clock->Monotonic() - spec_->arrival -
                         waited_);
}

void FlowRunner::Perform(const CloseStream& action) {
  auto it = streams_.find(action.stream);
  if (it == streams_.end()) return;
  if (!action.finished) {
    it->second.stream->Cancel();
    return;
  }
  strand_->PostAfter(kCloseGrace,
                     [self = shared_from_this(), stream = action.stream] {
                       self->Perform(CloseStream{stream, false});
                     });
}

void FlowRunner::Perform(const EmitProgress& action) {
  sink_->OnProgress(action.progress.processed, action.progress.total);
}

void FlowRunner::Perform(const EmitText& action) {
  if (!action.tokens.empty()) {
    const absl::Duration now = environment_.clock->Monotonic();
    if (last_tokens_at_.has_value()) {
      metrics_->OnTokens(now - *last_tokens_at_, action.tokens.size());
    }
    last_tokens_at_ = now;
  }
  sink_->OnText(action.text, action.tokens);
  if (!action.tokens.empty()) {
    metrics_->OnTokensSent(environment_.clock->Monotonic() - event_received_);
  }
}

void FlowRunner::Perform(const EndAnswer& action) {
  metrics_->OnEnd(spec_->api, action.report,
                  environment_.clock->Monotonic() - spec_->arrival);
  sink_->OnEnd(action.report);
  End();
}

void FlowRunner::Perform(const FailAnswer& action) {
  metrics_->OnError(spec_->api, action.status);
  if (!absl::IsCancelled(action.status)) {
    Log(LogLevel::kWarning, "request failed",
        {{"request_id", spec_->request_id.value()},
         {"error", action.status.ToString()}});
  }
  sink_->OnError(action.status);
  End();
}

void FlowRunner::Perform(const SuspectWorker& action) {
  environment_.registry->ReportFailure(action.worker, action.epoch);
}

void FlowRunner::Perform(const CountRetry& action) {
  metrics_->OnRetry(action);
  Log(action.full ? LogLevel::kInfo : LogLevel::kWarning,
      action.full ? "worker full, trying again"
                  : "worker lost, going on elsewhere",
      {{"request_id", spec_->request_id.value()},
       {"phase", action.phase},
       {"code", absl::StatusCodeToString(action.code)}});
}

void FlowRunner::End() {
  sink_.reset();
  ReportEndOnce();
}

void FlowRunner::ReportEndOnce() {
  if (sink_ != nullptr || !streams_.empty()) return;
  if (auto on_ended = std::exchange(on_ended_, nullptr)) on_ended(this);
}

}  // namespace baton::gateway
