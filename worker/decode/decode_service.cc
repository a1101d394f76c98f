#include "worker/decode/decode_service.h"

#include <memory>
#include <optional>
#include <utility>

#include "services/base/checked_math.h"
#include "services/base/mutex.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"
#include "services/rpc/grpc_status.h"
#include "worker/api/event_queue.h"
#include "worker/api/sampling_codec.h"
#include "worker/decode/decode_run.h"
#include "worker/handoff/handoff_codec.h"

namespace baton::worker {
namespace {

absl::StatusOr<DecodeSpec> DecodeReserveRequest(
    const v1::DecodeReserve& request, const WorkerContext& context) {
  const uint32_t vocabulary = context.model->vocabulary;
  DecodeSpec spec;
  spec.request = RequestId(request.request_id());
  spec.handoff = HandoffId(request.handoff_id().empty() ? RandomName("handoff-")
                                                        : request.handoff_id());
  BATON_ASSIGN_OR_RETURN(
      spec.prompt,
      DecodePrompt(request.token_ids(), vocabulary, context.context_length));
  BATON_ASSIGN_OR_RETURN(spec.sampling,
                         DecodeSampling(request.sampling(), vocabulary));
  BATON_ASSIGN_OR_RETURN(spec.stop,
                         DecodeStop(request.stop(), vocabulary,
                                    static_cast<uint32_t>(spec.prompt.size()),
                                    context.context_length));
  spec.root = kvstore::RootKey(context.fingerprint, request.cache_salt());
  if (request.speculation().has_mode()) {
    BATON_ASSIGN_OR_RETURN(spec.draft_methods,
                           DraftMethods::Parse(request.speculation().mode()));
  }
  if (request.speculation().has_max()) {
    spec.most_drafts = request.speculation().max();
  }
  return spec;
}

// A slow reader gets more tokens in one message, and only the newest progress.
bool FoldEvent(const v1::DecodeEvent& next, v1::DecodeEvent* last) {
  if (next.has_tokens() && last->has_tokens()) {
    v1::DecodeTokens* tokens = last->mutable_tokens();
    const uint32_t drafted = tokens->drafted_tokens();
    const uint32_t accepted = tokens->accepted_tokens();
    tokens->MergeFrom(next.tokens());
    tokens->set_drafted_tokens(drafted + next.tokens().drafted_tokens());
    tokens->set_accepted_tokens(accepted + next.tokens().accepted_tokens());
    return true;
  }
  if (next.has_progress() && last->has_progress()) {
    *last = next;
    return true;
  }
  return false;
}

// One call. gRPC deletes it through OnDone.
class DecodeCall final
    : public grpc::ServerBidiReactor<v1::DecodeRequest, v1::DecodeEvent>,
      public DecodeSink {
 public:
  DecodeCall(AdmissionGate* gate, ReservationTable* table)
      : gate_(gate), table_(table) {
    StartRead(&request_);
  }

  // Reactor.
  void OnReadDone(bool ok) override {
    if (!ok) return OnCallerFinished();
    if (const absl::Status status = Handle(); !status.ok()) return Fail(status);
    StartRead(&request_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) events_.DropWaiting();
    if (const v1::DecodeEvent* next = events_.Next()) return StartWrite(next);
    if (events_.TakeFinish()) Finish(status_);
  }
  void OnCancel() override {
    events_.DropWaiting();
    if (auto run = this->run()) {
      run->Cancel(absl::CancelledError("the caller left"));
    }
  }
  void OnDone() override { delete this; }

  // Sink.
  void OnProgress(uint32_t processed, uint32_t total) override {
    v1::DecodeEvent event;
    event.mutable_progress()->set_processed_tokens(processed);
    event.mutable_progress()->set_total_tokens(total);
    Write(std::move(event));
  }
  void OnStarted(const StartedReport& report) override {
    v1::DecodeEvent event;
    v1::DecodeStarted* started = event.mutable_started();
    EncodeSources(report.sources, started->mutable_sources());
    started->set_handoff_bytes(report.handoff_bytes);
    started->set_handoff_ms(absl::ToDoubleMilliseconds(report.handoff));
    started->set_corrupt_blocks(report.corrupt_blocks);
    Write(std::move(event));
  }
  void OnTokens(const std::vector<CommittedToken>& tokens,
                const DraftReport& drafts) override {
    v1::DecodeEvent event;
    event.mutable_tokens()->set_drafted_tokens(drafts.drafted);
    event.mutable_tokens()->set_accepted_tokens(drafts.accepted);
    for (const CommittedToken& token : tokens) {
      EncodeToken(token, event.mutable_tokens()->add_tokens());
    }
    Write(std::move(event));
  }
  void OnFinished(const FinishedReport& report) override {
    v1::DecodeEvent event;
    v1::DecodeFinished* finished = event.mutable_finished();
    finished->set_reason(EncodeFinishReason(report.reason));
    finished->set_generated_tokens(report.timings.generated_tokens);
    finished->set_decode_ms(absl::ToDoubleMilliseconds(report.timings.decode));
    finished->set_prefill_ms(
        absl::ToDoubleMilliseconds(report.timings.prefill));
    finished->set_queue_ms(absl::ToDoubleMilliseconds(report.timings.queue));
    Write(std::move(event));
  }
  void OnDone(const absl::Status& status) override {
    status_ = rpc::ToGrpcStatus(status);
    if (events_.Close()) Finish(status_);
  }

 private:
  std::shared_ptr<DecodeRun> run() {
    MutexLock lock(&mutex_);
    return run_;
  }

  absl::Status Handle() {
    switch (request_.request_case()) {
      case v1::DecodeRequest::kReserve:
        return Reserve(request_.reserve());
      case v1::DecodeRequest::kStart:
        return Start(request_.start());
      case v1::DecodeRequest::kCancel:
        return absl::CancelledError("the caller cancelled");
      case v1::DecodeRequest::REQUEST_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError("an empty request");
  }

  absl::Status Reserve(const v1::DecodeReserve& request) {
    if (run() != nullptr) {
      return absl::InvalidArgumentError("the stream has reserved before");
    }
    BATON_ASSIGN_OR_RETURN(AdmissionGate::Pass pass, gate_->Enter());
    BATON_ASSIGN_OR_RETURN(DecodeSpec spec,
                           DecodeReserveRequest(request, pass.context()));
    BATON_ASSIGN_OR_RETURN(
        std::shared_ptr<DecodeRun> run,
        DecodeRun::Reserve(std::move(pass), std::move(spec), table_, this));
    {
      // First, so that OnCancel finds it.
      MutexLock lock(&mutex_);
      run_ = run;
    }
    v1::DecodeEvent event;
    v1::DecodeReserved* reserved = event.mutable_reserved();
    reserved->set_epoch(run->context().epoch.value());
    reserved->set_held_tokens(run->held_tokens());
    reserved->set_layout_fingerprint(run->context().fingerprint.Raw());
    Write(std::move(event));
    return absl::OkStatus();
  }

  absl::Status Start(const v1::DecodeStart& request) {
    auto run = this->run();
    if (run == nullptr) {
      return absl::InvalidArgumentError("start comes after reserve");
    }
    const WorkerContext& context = run->context();
    BATON_ASSIGN_OR_RETURN(
        std::vector<TokenId> committed,
        DecodeCommitted(request.committed_token_ids(),
                        context.model->vocabulary, run->max_tokens()));
    std::optional<HandoffManifest> manifest;
    if (request.has_manifest()) {
      BATON_ASSIGN_OR_RETURN(
          manifest, DecodeManifest(request.manifest(),
                                   DivideUp(context.context_length,
                                            context.layout->block_tokens)));
    }
    run->Start(std::move(committed), std::move(manifest));
    return absl::OkStatus();
  }

  // A fault of the caller's: ends the run if there is one, else the call.
  void Fail(const absl::Status& status) {
    if (auto run = this->run()) return run->Cancel(status);
    OnDone(status);
  }

  void OnCallerFinished() {
    if (auto run = this->run()) return run->OnCallerFinished();
    OnDone(absl::CancelledError("the caller left before it reserved"));
  }

  void Write(v1::DecodeEvent event) {
    if (const v1::DecodeEvent* next = events_.Push(std::move(event))) {
      StartWrite(next);
    }
  }

  AdmissionGate* const gate_;
  ReservationTable* const table_;
  v1::DecodeRequest request_;  // of the read in flight
  EventQueue<v1::DecodeEvent> events_{FoldEvent};
  grpc::Status status_;  // set before the queue is closed
  Mutex mutex_;
  std::shared_ptr<DecodeRun> run_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerBidiReactor<v1::DecodeRequest, v1::DecodeEvent>*
DecodeService::Decode(grpc::CallbackServerContext* context) {
  return new DecodeCall(gate_, table_);
}

}  // namespace baton::worker
