#include "gateway/flow/request_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/flow/failure_policy.h"
#include "services/base/error_details.h"

namespace baton::gateway {

const char* FlowStateName(FlowState state) {
  switch (state) {
    case FlowState::kQueued:
      return "queue";
    case FlowState::kReserving:
      return "route";
    case FlowState::kPrefilling:
      return "prefill";
    case FlowState::kTransferring:
      return "transfer";
    case FlowState::kDecoding:
      return "decode";
    case FlowState::kDone:
      return "done";
    case FlowState::kFailed:
      return "failed";
    case FlowState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

RequestFlow::RequestFlow(const Options& options,
                         std::shared_ptr<const GenerationSpec> spec,
                         std::string handoff_name, const Router* router,
                         std::shared_ptr<const text::Tokenizer> tokenizer)
    : options_(options),
      spec_(std::move(spec)),
      handoff_name_(std::move(handoff_name)),
      router_(router),
      emission_(std::move(tokenizer), spec_->limits),
      retry_delay_(options.retry_delay) {
  report_.prompt_tokens = static_cast<uint32_t>(spec_->prompt.size());
}

bool RequestFlow::ended() const {
  return state_ == FlowState::kDone || state_ == FlowState::kFailed ||
         state_ == FlowState::kCancelled;
}

bool RequestFlow::IsDecode(StreamNumber stream) const {
  return decode_.has_value() && decode_->stream == stream;
}

bool RequestFlow::IsPrefill(StreamNumber stream) const {
  return prefill_.has_value() && prefill_->stream == stream;
}

FlowActions RequestFlow::Take() { return std::exchange(actions_, {}); }

FlowActions RequestFlow::OnAdmitted(const FlowContext& context) {
  if (state_ != FlowState::kQueued) return {};
  report_.queue = context.now - spec_->arrival;
  state_ = FlowState::kReserving;
  Reserve(context);
  return Take();
}

FlowActions RequestFlow::OnRefused(const absl::Status& status) {
  if (ended()) return {};
  Fail(status);
  return Take();
}

FlowActions RequestFlow::OnCancel() {
  if (ended()) return {};
  CloseStreams(false);
  state_ = FlowState::kCancelled;
  actions_.emplace_back(FailAnswer{absl::CancelledError("cancelled")});
  return Take();
}

FlowActions RequestFlow::OnWorkerEvent(StreamNumber stream,
                                       const WorkerEvent& event,
                                       const FlowContext& context) {
  if (ended()) return {};
  if (IsDecode(stream)) {
    decode_->last_heard = context.now;
    OnDecodeEvent(event, context);
  } else if (IsPrefill(stream)) {
    OnPrefillEvent(event, context);
  }
  return Take();
}

FlowActions RequestFlow::OnTick(const FlowContext& context) {
  if (ended()) return {};
  if (ending_.has_value()) {
    if (context.now >= ending_until_) Finish(*ending_, false);
  } else if (context.now >= spec_->deadline) {
    FailByDeadline();
  } else if (state_ == FlowState::kQueued) {
    if (context.now >= spec_->arrival + options_.queue_timeout) {
      Fail(WithRetryAfter(WithReason(absl::ResourceExhaustedError(
                                         "waited too long for a place"),
                                     "queue_timeout"),
                          absl::Seconds(5)));
    }
  } else if (context.now >= retry_at_) {
    Reserve(context);
  } else if (AwaitsDecode()) {
    CheckSilence(context);
  }
  return Take();
}

absl::Duration RequestFlow::NextWake() const {
  if (ended()) return absl::InfiniteDuration();
  if (ending_.has_value()) return ending_until_;
  absl::Duration wake = std::min(spec_->deadline, retry_at_);
  if (state_ == FlowState::kQueued) {
    wake = std::min(wake, spec_->arrival + options_.queue_timeout);
  }
  if (AwaitsDecode()) {
    wake = std::min(wake, std::max(decode_->last_heard + options_.stall_timeout,
                                   next_silence_check_));
  }
  return wake;
}

// --- Reserving

RouteFacts RequestFlow::Facts() const {
  return {static_cast<uint32_t>(spec_->prompt.size()),
          emission_.committed().empty() && prefill_failures_ < 2, pinned_};
}

void RequestFlow::Reserve(const FlowContext& context) {
  retry_at_ = absl::InfiniteDuration();
  std::optional<Route> route =
      router_->Pick(*context.cluster, Facts(), exclusions_);
  if (!route.has_value()) {
    // A new request fails at once; one that had a worker waits for the next.
    if (last_failure_.ok()) {
      Fail(NoWorker());
    } else {
      WaitForWorker(context);
    }
    return;
  }
  if (report_.route_reason.empty()) report_.route_reason = route->reason;
  decode_ = Holder{++last_stream_, route->decode, context.now};
  planned_prefill_ = route->prefill;
  handoff_ = HandoffId(absl::StrCat(handoff_name_, "-", ++handoffs_));
  actions_.emplace_back(
      OpenDecode{decode_->stream, decode_->worker, {spec_, handoff_, ""}});
}

void RequestFlow::WaitForWorker(const FlowContext& context) {
  if (give_up_at_ == absl::InfiniteDuration()) {
    give_up_at_ = context.now + options_.resume_timeout;
  }
  if (context.now >= give_up_at_) {
    Fail(NoWorker());
    return;
  }
  // The same worker may be ready again by then.
  exclusions_.decode.clear();
  retry_at_ = context.now + retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, absl::Seconds(1));
}

void RequestFlow::OnReserved(const DecodeReservedEvent& event,
                             const FlowContext& context) {
  if (state_ != FlowState::kReserving) {
    LoseDecode(absl::InternalError("a second reservation"), context);
    return;
  }
  WorkerSnapshot& worker = decode_->worker;
  if (event.epoch) worker.epoch = event.epoch;
  if (!event.layout_fingerprint.empty() &&
      event.layout_fingerprint != worker.layout_fingerprint) {
    // It restarted with another model after the last probe.
    LoseDecode(absl::AbortedError("the worker's layout has changed"), context);
    return;
  }
  give_up_at_ = absl::InfiniteDuration();
  retry_delay_ = options_.retry_delay;
  if (!planned_prefill_.has_value()) {
    Start(std::nullopt, context);
    return;
  }
  const uint32_t prompt = report_.prompt_tokens;
  const uint32_t missing = prompt - std::min(prompt, event.held_tokens);
  if (missing < router_->options().min_remote_prompt_tokens) {
    report_.route_reason =
        absl::StrCat("decode alone: it holds ", event.held_tokens, " of ",
                     prompt, " prompt tokens");
    Start(std::nullopt, context);
    return;
  }
  StartPrefill(*std::move(planned_prefill_), context);
}

// --- Prefilling

void RequestFlow::StartPrefill(WorkerSnapshot worker,
                               const FlowContext& context) {
  planned_prefill_.reset();
  state_ = FlowState::kPrefilling;
  prefill_ = Holder{++last_stream_, std::move(worker), context.now};
  actions_.emplace_back(
      OpenPrefill{prefill_->stream,
                  prefill_->worker,
                  {spec_, handoff_, decode_->worker.layout_fingerprint}});
}

void RequestFlow::OnPrefillEvent(const WorkerEvent& event,
                                 const FlowContext& context) {
  if (const auto* closed = std::get_if<WorkerClosed>(&event)) {
    if (state_ != FlowState::kPrefilling) {
      prefill_.reset();  // its work is done
      return;
    }
    LosePrefill(closed->status, context);
    return;
  }
  if (state_ != FlowState::kPrefilling) return;
  const bool has_first = !emission_.committed().empty();
  if (const auto* progress = std::get_if<WorkerProgress>(&event)) {
    actions_.emplace_back(EmitProgress{*progress});
  } else if (const auto* first = std::get_if<FirstTokenReady>(&event);
             first != nullptr && !has_first) {
    OnFirstToken(*first, context);
  } else if (const auto* ready = std::get_if<ManifestReady>(&event);
             ready != nullptr && has_first) {
    Start(ready->manifest, context);
  } else {
    LosePrefill(absl::InternalError("events out of order"), context);
  }
}

void RequestFlow::OnFirstToken(const FirstTokenReady& event,
                               const FlowContext& context) {
  const Committed committed = CommitTokens({event.token}, context);
  if (!committed.valid) {
    LosePrefill(absl::InternalError("the first token is out of range"),
                context);
    return;
  }
  report_.prefill_worker = prefill_->worker.id.value();
  report_.sources = event.sources;
  report_.prefill = event.prefill;
  report_.queue += event.queue;
  if (committed.finish.has_value()) {
    Finish(*committed.finish, false);
  } else if (event.finish_reason.has_value()) {
    Finish(*event.finish_reason, false);
  }
}

// Prefill is tried once more while nothing is committed; then the decode
// worker computes what it cannot restore.
void RequestFlow::LosePrefill(const absl::Status& status,
                              const FlowContext& context) {
  const Holder lost = *prefill_;
  actions_.emplace_back(CloseStream{lost.stream, false});
  prefill_.reset();
  const absl::Status failure =
      status.ok() ? absl::InternalError("prefill ended early") : status;
  if (FailedByDeadline(failure, context)) return;
  if (IsFatal(failure)) {
    Fail(failure);
    return;
  }
  CountLoss("prefill", lost.worker, failure);
  ++prefill_failures_;
  exclusions_.prefill.insert(lost.worker.id);
  if (Facts().may_prefill_remotely) {
    auto next =
        router_->PickPrefill(*context.cluster, decode_->worker, exclusions_);
    if (next.has_value()) {
      StartPrefill(*std::move(next), context);
      return;
    }
  }
  report_.route_reason = absl::StrCat("decode alone: prefill on ",
                                      lost.worker.id.value(), " failed");
  Start(std::nullopt, context);
}

}  // namespace baton::gateway
