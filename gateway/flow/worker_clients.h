// How the flow talks to workers: two interfaces and the events that come back.
// Core: the gRPC implementations are grpc_prefill_client.h and
// grpc_decode_client.h; tests use fakes.
#ifndef BATON_GATEWAY_FLOW_WORKER_CLIENTS_H_
#define BATON_GATEWAY_FLOW_WORKER_CLIENTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gateway/flow/generation.h"
#include "services/base/ids.h"

namespace baton::gateway {

// A handoff manifest, serialised. The gateway carries it and never reads it.
using ManifestBytes = std::string;

struct PositionedToken {
  EmittedToken token;
  uint32_t position = 0;  // index in the sequence, prompt included
};

// Prompt rows done so far, of either worker.
struct WorkerProgress {
  uint32_t processed = 0;
  uint32_t total = 0;
};

// --- From a prefill worker, in this order: progress…, first token, manifest.
struct FirstTokenReady {
  PositionedToken token;
  std::optional<FinishReason> finish_reason;  // set: no manifest follows
  PromptSources sources;
  absl::Duration prefill;
  absl::Duration queue;
};
struct ManifestReady {
  ManifestBytes manifest;
};

// --- From a decode worker: reserved, progress…, started, tokens…, finished.
struct DecodeReservedEvent {
  Epoch epoch;
  uint32_t held_tokens = 0;
  std::string layout_fingerprint;  // 32 raw bytes
};
struct DecodeStartedEvent {
  PromptSources sources;
  uint64_t handoff_bytes = 0;
  absl::Duration handoff;
  uint32_t corrupt_blocks = 0;
};
struct DecodeTokensEvent {
  std::vector<PositionedToken> tokens;
  // Since the event before.
  uint32_t drafted = 0;
  uint32_t accepted = 0;
};
struct DecodeFinishedEvent {
  FinishReason reason = FinishReason::kStop;
  uint32_t generated_tokens = 0;
  absl::Duration prefill;
  absl::Duration queue;
};

// The end of a stream by either worker: always last, exactly once.
struct WorkerClosed {
  absl::Status status;
};

using WorkerEvent =
    std::variant<WorkerProgress, FirstTokenReady, ManifestReady,
                 DecodeReservedEvent, DecodeStartedEvent, DecodeTokensEvent,
                 DecodeFinishedEvent, WorkerClosed>;

// Called on any thread, one event at a time and in order. Must not block.
using WorkerEventSink = std::function<void(WorkerEvent)>;

// What both workers are told.
struct WorkerRequest {
  std::shared_ptr<const GenerationSpec> spec;
  HandoffId handoff_id;
  std::string layout_fingerprint;  // prefill only: the receiver's layout
};

// How long a worker's stream of `spec` may last from `now` on, by the monotonic
// clock. Longer than the request: the flow's own timer ends it, so that a
// stream that runs out of time first cannot be taken for a worker's fault; the
// stream's end only bounds what a gateway that hangs can hold.
inline constexpr absl::Duration kStreamSlack = absl::Seconds(2);
inline absl::Duration StreamTimeout(const GenerationSpec& spec,
                                    absl::Duration now) {
  return spec.deadline - now + kStreamSlack;
}

// An open stream. Thread-safe.
class WorkerStream {
 public:
  // Does not cancel: the stream lives until WorkerClosed in any case.
  virtual ~WorkerStream() = default;
  // Ends it; WorkerClosed still comes. Idempotent.
  virtual void Cancel() = 0;
};

class DecodeStream : public WorkerStream {
 public:
  // Once, after the reservation.
  virtual void StartDecode(std::vector<TokenId> committed,
                           std::optional<ManifestBytes> manifest) = 0;
};

// Thread-safe. Calls never block.
class PrefillClient {
 public:
  virtual ~PrefillClient() = default;
  virtual std::shared_ptr<WorkerStream> Prefill(const std::string& address,
                                                const WorkerRequest& request,
                                                WorkerEventSink sink) = 0;
};

// Thread-safe. Calls never block.
class DecodeClient {
 public:
  virtual ~DecodeClient() = default;
  // Opens the stream and asks for the reservation.
  virtual std::shared_ptr<DecodeStream> Open(const std::string& address,
                                             const WorkerRequest& request,
                                             WorkerEventSink sink) = 0;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_WORKER_CLIENTS_H_
