// The state machine of one request, and the only place that retries. Pure and
// single-threaded: events and the time go in, actions come out; it holds no
// thread, clock, lock or connection. flow_runner.h performs the actions.
//
//   Queued       → Reserving (admitted)
//   Reserving    → Reserving (another decode worker, or waiting for one)
//                | Prefilling (reserved, with a prefill worker)
//                | Transferring (reserved, without one)
//   Prefilling   → Prefilling (another prefill worker)
//                | Transferring (manifest, or prefill failed)
//                | Reserving (decode worker lost)
//                | Done (the first token ends the answer)
//   Transferring → Decoding (generation began) | Reserving (worker lost)
//   Decoding     → Done | Reserving (worker lost)
//   any but Done, Failed, Cancelled → Failed | Cancelled
//
// The request's own deadline and cancel are never a worker's fault, in
// whichever order the timer and the streams report them: nothing is retried for
// them and no worker is suspected.
//
// A decode worker is reserved before anything is computed. Tokens are
// committed in order of their position, whoever sampled them; after a move the
// next worker is given all that is committed, so the client sees no seam.
#ifndef BATON_GATEWAY_FLOW_REQUEST_FLOW_H_
#define BATON_GATEWAY_FLOW_REQUEST_FLOW_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gateway/flow/emission.h"
#include "gateway/flow/generation.h"
#include "gateway/flow/worker_clients.h"
#include "gateway/registry/cluster_snapshot.h"
#include "gateway/routing/router.h"

namespace baton::gateway {

enum class FlowState {
  kQueued,
  kReserving,
  kPrefilling,
  kTransferring,
  kDecoding,
  kDone,
  kFailed,
  kCancelled,
};
const char* FlowStateName(FlowState state);

// A worker stream of this flow; a later stream has a larger number. Events of
// streams that the flow has left are ignored.
using StreamNumber = uint64_t;

struct OpenDecode {
  StreamNumber stream = 0;
  WorkerSnapshot worker;
  WorkerRequest request;
};
struct OpenPrefill {
  StreamNumber stream = 0;
  WorkerSnapshot worker;
  WorkerRequest request;
};
struct StartDecode {
  StreamNumber stream = 0;
  std::vector<TokenId> committed;
  std::optional<ManifestBytes> manifest;
};
struct CloseStream {
  StreamNumber stream = 0;
  // The worker has said its last word and ends the stream itself; cancel it
  // only if it does not.
  bool finished = false;
};
struct EmitProgress {
  WorkerProgress progress;
};
struct EmitText {
  std::string text;
  std::vector<EmittedToken> tokens;
};
// Terminal: exactly one of these two, last.
struct EndAnswer {
  GenerationReport report;
};
struct FailAnswer {
  absl::Status status;
};
// The worker does not answer; the registry should look again.
struct SuspectWorker {
  WorkerId worker;
  Epoch epoch;
};
struct CountRetry {
  const char* phase = "";  // "prefill" or "decode"
  absl::StatusCode code = absl::StatusCode::kUnknown;
  bool full = false;  // the worker had no place; nothing was lost
};

using FlowAction = std::variant<OpenDecode, OpenPrefill, StartDecode,
                                CloseStream, EmitProgress, EmitText, EndAnswer,
                                FailAnswer, SuspectWorker, CountRetry>;
using FlowActions = std::vector<FlowAction>;

// The world at the moment of an event.
struct FlowContext {
  absl::Duration now;  // monotonic
  const ClusterSnapshot* cluster = nullptr;
};

class RequestFlow {
 public:
  struct Options {
    absl::Duration queue_timeout = absl::Seconds(60);
    // How long a request that lost its worker, or found it full, waits for
    // one that can go on.
    absl::Duration resume_timeout = absl::Seconds(30);
    // A decode worker is given up when it has been silent this long and the
    // registry's probes fail as well; if another can go on.
    absl::Duration stall_timeout = absl::Seconds(20);
    // The same for a worker that answers probes.
    absl::Duration hang_timeout = absl::Seconds(120);
    // How long the end waits for the worker's own account of it.
    absl::Duration finish_grace = absl::Seconds(1);
    // First wait before a worker is tried again; doubles up to a second.
    absl::Duration retry_delay = absl::Milliseconds(50);
    // Lost workers in a row without one token gained; guards the cluster
    // against a request that kills workers.
    uint32_t max_fruitless_resumes = 4;
    uint32_t max_resumes = 32;
  };

  // `spec` has its seed and max_tokens set. `handoff_name` is unique to this
  // request; attempts add a number. `router` must outlive the flow.
  RequestFlow(const Options& options,
              std::shared_ptr<const GenerationSpec> spec,
              std::string handoff_name, const Router* router,
              std::shared_ptr<const text::Tokenizer> tokenizer);

  // Events. After the terminal action all return nothing.
  FlowActions OnAdmitted(const FlowContext& context);
  FlowActions OnRefused(const absl::Status& status);
  FlowActions OnWorkerEvent(StreamNumber stream, const WorkerEvent& event,
                            const FlowContext& context);
  FlowActions OnCancel();
  FlowActions OnTick(const FlowContext& context);

  // When OnTick must come next; InfiniteDuration after the end.
  absl::Duration NextWake() const;
  FlowState state() const { return state_; }
  bool ended() const;

 private:
  // The worker that holds a stream.
  struct Holder {
    StreamNumber stream = 0;
    WorkerSnapshot worker;
    absl::Duration last_heard;
  };
  // What CommitTokens made of a batch.
  struct Committed {
    bool valid = true;  // false: a position or an id that cannot be
    std::optional<FinishReason> finish;
    bool by_stop_string = false;
  };

  bool IsDecode(StreamNumber stream) const;
  bool IsPrefill(StreamNumber stream) const;

  // Reserving.
  void Reserve(const FlowContext& context);
  void WaitForWorker(const FlowContext& context);
  void OnReserved(const DecodeReservedEvent& event, const FlowContext& context);
  // Prefilling.
  void OnPrefillEvent(const WorkerEvent& event, const FlowContext& context);
  void StartPrefill(WorkerSnapshot worker, const FlowContext& context);
  void OnFirstToken(const FirstTokenReady& event, const FlowContext& context);
  void LosePrefill(const absl::Status& status, const FlowContext& context);
  // Transferring, Decoding.
  void OnDecodeEvent(const WorkerEvent& event, const FlowContext& context);
  void Start(std::optional<ManifestBytes> manifest, const FlowContext& context);
  void OnStarted(const DecodeStartedEvent& event);
  void OnTokens(const DecodeTokensEvent& event, const FlowContext& context);
  void OnFinished(const DecodeFinishedEvent& event, const FlowContext& context);
  void LoseDecode(const absl::Status& status, const FlowContext& context);
  void CheckSilence(const FlowContext& context);
  bool AwaitsDecode() const;
  // Common.
  Committed CommitTokens(const std::vector<PositionedToken>& tokens,
                         const FlowContext& context);
  RouteFacts Facts() const;
  // Work was lost on `worker` and will be sent again.
  void CountLoss(const char* phase, const WorkerSnapshot& worker,
                 const absl::Status& status);
  // True if it was the deadline that ended a worker's stream with `status`;
  // then the request has failed with it.
  bool FailedByDeadline(const absl::Status& status, const FlowContext& context);
  void FailByDeadline();
  void CloseStreams(bool decode_finished);
  void Finish(FinishReason reason, bool decode_finished);
  void Fail(const absl::Status& status);
  absl::Status NoWorker() const;
  FlowActions Take();

  const Options options_;
  const std::shared_ptr<const GenerationSpec> spec_;
  const std::string handoff_name_;
  const Router* const router_;

  FlowState state_ = FlowState::kQueued;
  FlowActions actions_;
  Emission emission_;
  std::optional<Holder> decode_;
  std::optional<Holder> prefill_;
  std::optional<WorkerSnapshot> planned_prefill_;
  HandoffId handoff_;  // of the current reservation
  RouteExclusions exclusions_;
  // Set with the first token: only such a worker gives the same next ones.
  std::optional<SequenceIdentity> pinned_;
  absl::Status last_failure_;  // of a decode worker; ok: none yet
  StreamNumber last_stream_ = 0;
  uint32_t handoffs_ = 0;
  uint32_t prefill_failures_ = 0;
  uint32_t fruitless_ = 0;
  // Set when the last token is committed and the worker's account of the end
  // is still to come.
  std::optional<FinishReason> ending_;
  absl::Duration ending_until_;
  absl::Duration next_silence_check_;
  // Waiting for a worker.
  absl::Duration retry_at_ = absl::InfiniteDuration();
  absl::Duration retry_delay_;
  absl::Duration give_up_at_ = absl::InfiniteDuration();
  // For the report.
  GenerationReport report_;
  absl::Duration started_at_;        // of the current StartDecode
  absl::Duration first_started_at_;  // of the one that gave the first token
  absl::Duration first_token_at_;
  absl::Duration last_token_at_;
  bool first_by_decode_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_REQUEST_FLOW_H_
