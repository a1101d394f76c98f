#include "worker/prefill/prefill_service.h"

#include <atomic>
#include <memory>
#include <utility>

#include "services/base/random.h"
#include "services/base/status_macros.h"
#include "services/rpc/grpc_status.h"
#include "worker/api/event_queue.h"
#include "worker/api/sampling_codec.h"
#include "worker/handoff/handoff_codec.h"
#include "worker/prefill/prefill_run.h"

namespace baton::worker {
namespace {

absl::StatusOr<PrefillSpec> DecodeRequest(const v1::PrefillRequest& request,
                                          const WorkerContext& context) {
  if (!request.layout_fingerprint().empty() &&
      request.layout_fingerprint() != context.fingerprint.Raw()) {
    return absl::FailedPreconditionError(
        "the receiver's cache layout differs from this worker's");
  }
  const uint32_t vocabulary = context.model->vocabulary;
  PrefillSpec spec;
  spec.request = RequestId(request.request_id());
  // A lease of its own even for a caller that names no handoff.
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
  return spec;
}

// Only the newest progress is worth writing.
bool FoldProgress(const v1::PrefillEvent& next, v1::PrefillEvent* last) {
  if (!next.has_progress() || !last->has_progress()) return false;
  *last = next;
  return true;
}

// One call. gRPC deletes it through OnDone.
class PrefillCall final : public grpc::ServerWriteReactor<v1::PrefillEvent>,
                          public PrefillSink {
 public:
  PrefillCall(AdmissionGate* gate, const v1::PrefillRequest& request) {
    if (const absl::Status status = Begin(gate, request); !status.ok()) {
      OnDone(status);
    }
  }

  // Reactor.
  void OnWriteDone(bool ok) override {
    if (!ok) {
      undelivered_.store(true);
      events_.DropWaiting();
    }
    if (const v1::PrefillEvent* next = events_.Next()) return StartWrite(next);
    if (events_.TakeFinish()) Finish(status_);
  }
  void OnCancel() override {
    undelivered_.store(true);
    events_.DropWaiting();
    if (run_ != nullptr) run_->Cancel();
  }
  void OnDone() override {
    if (run_ != nullptr) run_->OnDelivered(!undelivered_.load());
    delete this;
  }

  // Sink.
  void OnProgress(uint32_t processed, uint32_t total) override {
    v1::PrefillEvent event;
    event.mutable_progress()->set_processed_tokens(processed);
    event.mutable_progress()->set_total_tokens(total);
    Write(std::move(event));
  }
  void OnFirstToken(const FirstTokenReport& report) override {
    v1::PrefillEvent event;
    v1::FirstToken* first = event.mutable_first_token();
    EncodeToken(report.token, first->mutable_token());
    first->set_finish_reason(EncodeFinishReason(report.finish_reason));
    EncodeSources(report.sources, first->mutable_sources());
    first->set_prefill_ms(absl::ToDoubleMilliseconds(report.prefill));
    first->set_queue_ms(absl::ToDoubleMilliseconds(report.queue));
    Write(std::move(event));
  }
  void OnManifest(const HandoffManifest& manifest) override {
    v1::PrefillEvent event;
    EncodeManifest(manifest, event.mutable_manifest());
    Write(std::move(event));
  }
  void OnDone(const absl::Status& status) override {
    status_ = rpc::ToGrpcStatus(status);
    if (events_.Close()) Finish(status_);
  }

 private:
  absl::Status Begin(AdmissionGate* gate, const v1::PrefillRequest& request) {
    BATON_ASSIGN_OR_RETURN(AdmissionGate::Pass pass, gate->Enter());
    BATON_ASSIGN_OR_RETURN(PrefillSpec spec,
                           DecodeRequest(request, pass.context()));
    run_ = PrefillRun::Start(std::move(pass), std::move(spec), this);
    return absl::OkStatus();
  }

  void Write(v1::PrefillEvent event) {
    if (const v1::PrefillEvent* next = events_.Push(std::move(event))) {
      StartWrite(next);
    }
  }

  EventQueue<v1::PrefillEvent> events_{FoldProgress};
  grpc::Status status_;  // set before the queue is closed
  std::atomic<bool> undelivered_{false};
  std::shared_ptr<PrefillRun> run_;
};

}  // namespace

grpc::ServerWriteReactor<v1::PrefillEvent>* PrefillService::Prefill(
    grpc::CallbackServerContext* context, const v1::PrefillRequest* request) {
  return new PrefillCall(gate_, *request);
}

}  // namespace baton::worker
