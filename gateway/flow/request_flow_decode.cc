// The second half of RequestFlow: from the start of decoding to the end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/flow/failure_policy.h"
#include "gateway/flow/request_flow.h"
#include "services/base/error_details.h"

namespace baton::gateway {

void RequestFlow::OnDecodeEvent(const WorkerEvent& event,
                                const FlowContext& context) {
  if (const auto* closed = std::get_if<WorkerClosed>(&event)) {
    LoseDecode(closed->status.ok()
                   ? absl::InternalError("the decode stream ended early")
                   : closed->status,
               context);
    return;
  }
  if (const auto* reserved = std::get_if<DecodeReservedEvent>(&event)) {
    OnReserved(*reserved, context);
    return;
  }
  if (state_ != FlowState::kTransferring && state_ != FlowState::kDecoding) {
    LoseDecode(absl::InternalError("decode events before its start"), context);
    return;
  }
  if (const auto* progress = std::get_if<WorkerProgress>(&event)) {
    // After a resume the client has the prompt behind it.
    if (emission_.committed().empty()) {
      actions_.emplace_back(EmitProgress{*progress});
    }
  } else if (const auto* started = std::get_if<DecodeStartedEvent>(&event)) {
    OnStarted(*started);
  } else if (const auto* tokens = std::get_if<DecodeTokensEvent>(&event)) {
    OnTokens(*tokens, context);
  } else if (const auto* end = std::get_if<DecodeFinishedEvent>(&event)) {
    OnFinished(*end, context);
  }
}

void RequestFlow::Start(std::optional<ManifestBytes> manifest,
                        const FlowContext& context) {
  state_ = FlowState::kTransferring;
  decode_->last_heard = context.now;
  started_at_ = context.now;
  actions_.emplace_back(
      StartDecode{decode_->stream, emission_.committed(), std::move(manifest)});
}

void RequestFlow::OnStarted(const DecodeStartedEvent& event) {
  state_ = FlowState::kDecoding;
  report_.handoff_bytes += event.handoff_bytes;
  report_.handoff += event.handoff;
  report_.corrupt_blocks += event.corrupt_blocks;
  // The prompt's sources are those of whoever sampled the first token.
  if (emission_.committed().empty()) report_.sources = event.sources;
}

void RequestFlow::OnTokens(const DecodeTokensEvent& event,
                           const FlowContext& context) {
  if (ending_.has_value()) return;  // the answer ended before these
  state_ = FlowState::kDecoding;
  first_by_decode_ = first_by_decode_ || emission_.committed().empty();
  report_.drafted_tokens += event.drafted;
  report_.accepted_tokens += event.accepted;
  const Committed committed = CommitTokens(event.tokens, context);
  if (!committed.valid) {
    LoseDecode(absl::InternalError("a token at a wrong position"), context);
  } else if (committed.finish.has_value() && committed.by_stop_string) {
    Finish(*committed.finish, false);
  } else if (committed.finish.has_value()) {
    ending_ = committed.finish;
    ending_until_ = context.now + options_.finish_grace;
  }
}

void RequestFlow::OnFinished(const DecodeFinishedEvent& event,
                             const FlowContext& context) {
  if (first_by_decode_ && report_.resumes == 0) {
    report_.prefill = event.prefill;
    report_.queue += event.queue;
  }
  if (ending_.has_value()) {
    Finish(*ending_, true);
  } else if (event.reason == FinishReason::kAborted) {
    LoseDecode(absl::AbortedError("the worker gave the sequence up"), context);
  } else {
    Finish(event.reason, true);
  }
}

RequestFlow::Committed RequestFlow::CommitTokens(
    const std::vector<PositionedToken>& tokens, const FlowContext& context) {
  Committed outcome;
  EmitText emit;
  for (const PositionedToken& token : tokens) {
    const size_t next = spec_->prompt.size() + emission_.committed().size();
    if (token.position != next || token.token.token < 0) {
      outcome.valid = false;
      break;
    }
    if (emission_.committed().empty()) {
      first_token_at_ = context.now;
      first_started_at_ = started_at_;
      report_.time_to_first_token = context.now - spec_->arrival;
      pinned_ = IdentityOf(decode_->worker);
    }
    Emission::Result result = emission_.Commit(token.token.token);
    emit.text += result.text;
    emit.tokens.push_back(token.token);
    if (result.finish.has_value()) {
      outcome.finish = result.finish;
      outcome.by_stop_string = result.by_stop_string;
      break;
    }
  }
  if (!emit.tokens.empty()) {
    last_token_at_ = context.now;
    fruitless_ = 0;
    actions_.emplace_back(std::move(emit));
  }
  return outcome;
}

// The stream moves to another worker, or waits for one; what is committed
// stays.
void RequestFlow::LoseDecode(const absl::Status& status,
                             const FlowContext& context) {
  const Holder lost = *decode_;
  if (ending_.has_value()) {
    Finish(*ending_, false);
    return;
  }
  CloseStreams(false);
  planned_prefill_.reset();
  if (FailedByDeadline(status, context)) return;
  if (IsFatal(status)) {
    Fail(status);
    return;
  }
  CountLoss("decode", lost.worker, status);
  last_failure_ = status;
  exclusions_.decode.insert(lost.worker.id);
  const bool was_started = state_ != FlowState::kReserving;
  state_ = FlowState::kReserving;
  if (was_started) {
    ++report_.resumes;
    if (++fruitless_ > options_.max_fruitless_resumes ||
        report_.resumes > options_.max_resumes) {
      Fail(NoWorker());
      return;
    }
  }
  Reserve(context);
}

// True while the flow waits for the decode worker to say something.
bool RequestFlow::AwaitsDecode() const {
  return decode_.has_value() && !ending_.has_value() &&
         state_ != FlowState::kPrefilling;
}

void RequestFlow::CheckSilence(const FlowContext& context) {
  // Stopped processes are seen by the probes too; a worker that answers those
  // may just have a long queue.
  next_silence_check_ = context.now + absl::Seconds(1);
  const WorkerSnapshot& ours = decode_->worker;
  bool answers = false;
  for (const WorkerSnapshot& worker : context.cluster->workers) {
    answers = answers || (worker.id == ours.id && worker.ready &&
                          worker.epoch == ours.epoch);
  }
  const absl::Duration limit =
      answers ? options_.hang_timeout : options_.stall_timeout;
  const absl::Duration silent = context.now - decode_->last_heard;
  if (silent < limit) return;
  RouteExclusions others = exclusions_;
  others.decode.insert(ours.id);
  if (!router_->Pick(*context.cluster, Facts(), others).has_value()) return;
  // No sign of a lost connection: the probes judge the worker for the others.
  LoseDecode(absl::DeadlineExceededError(
                 absl::StrCat("worker ", ours.id.value(), " is silent for ",
                              absl::FormatDuration(silent))),
             context);
}

// --- The end

void RequestFlow::CountLoss(const char* phase, const WorkerSnapshot& worker,
                            const absl::Status& status) {
  actions_.emplace_back(CountRetry{phase, status.code(), IsFull(status)});
  if (IsConnectionLoss(status)) {
    actions_.emplace_back(SuspectWorker{worker.id, worker.epoch});
  }
}

bool RequestFlow::FailedByDeadline(const absl::Status& status,
                                   const FlowContext& context) {
  if (!IsOwnDeadline(status, spec_->deadline - context.now)) return false;
  FailByDeadline();
  return true;
}

void RequestFlow::FailByDeadline() {
  Fail(WithReason(absl::DeadlineExceededError(absl::StrCat(
                      "the deadline passed in stage ", FlowStateName(state_))),
                  "deadline"));
}

void RequestFlow::CloseStreams(bool decode_finished) {
  if (prefill_.has_value()) {
    // After the manifest a prefill worker ends its stream itself.
    actions_.emplace_back(
        CloseStream{prefill_->stream, state_ > FlowState::kPrefilling});
  }
  if (decode_.has_value()) {
    actions_.emplace_back(CloseStream{decode_->stream, decode_finished});
  }
  prefill_.reset();
  decode_.reset();
}

void RequestFlow::Finish(FinishReason reason, bool decode_finished) {
  if (!emission_.finished()) {
    std::string text = emission_.Flush();
    if (!text.empty()) actions_.emplace_back(EmitText{std::move(text), {}});
  }
  if (decode_.has_value()) {
    report_.decode_worker = decode_->worker.id.value();
  }
  report_.finish_reason = reason;
  report_.completion_tokens =
      static_cast<uint32_t>(emission_.committed().size());
  report_.decode = last_token_at_ - first_token_at_;
  if (first_by_decode_ && report_.prefill == absl::ZeroDuration()) {
    // The worker gave no account: start to first token, as seen here.
    report_.prefill =
        std::max(absl::ZeroDuration(), first_token_at_ - first_started_at_);
  }
  CloseStreams(decode_finished);
  state_ = FlowState::kDone;
  actions_.emplace_back(EndAnswer{report_});
}

void RequestFlow::Fail(const absl::Status& status) {
  CloseStreams(false);
  state_ = FlowState::kFailed;
  actions_.emplace_back(FailAnswer{status});
}

absl::Status RequestFlow::NoWorker() const {
  if (!emission_.committed().empty()) {
    return WithReason(absl::UnavailableError(absl::StrCat(
                          "the worker was lost and no other can go on: ",
                          last_failure_.message())),
                      "worker_lost");
  }
  if (absl::IsResourceExhausted(last_failure_)) {
    return WithRetryAfter(
        WithReason(absl::ResourceExhaustedError(absl::StrCat(
                       "all workers are full: ", last_failure_.message())),
                   "queue_full"),
        absl::Seconds(5));
  }
  return WithRetryAfter(
      WithReason(
          absl::UnavailableError(
              last_failure_.ok() ? "no decode worker is ready"
                                 : absl::StrCat("no decode worker is ready: ",
                                                last_failure_.message())),
          "no_worker"),
      absl::Seconds(2));
}

}  // namespace baton::gateway
