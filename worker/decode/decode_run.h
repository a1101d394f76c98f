// One answer on its way through a decode worker: reserve, import or restore,
// generate. Independent of the transport.
//
//   reserved -> starting -> running -> ended
//
// and to ended from each of them, by failure, expiry or Cancel. Whatever the
// way, the end frees the reservation, the engine's sequence and every lease.
#ifndef BATON_WORKER_DECODE_DECODE_RUN_H_
#define BATON_WORKER_DECODE_DECODE_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/base/mutex.h"
#include "worker/decode/reservation_table.h"
#include "worker/engine/engine.h"
#include "worker/handoff/admission_gate.h"
#include "worker/handoff/block_publisher.h"
#include "worker/handoff/handoff_manifest.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {

struct DecodeSpec {
  RequestId request;
  HandoffId handoff;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  StopConditions stop;  // max_tokens is set
  kvstore::BlockKey root;
  DraftMethods draft_methods = DraftMethods::All();
  uint32_t most_drafts = UINT32_MAX;
};

// Since the report before.
struct DraftReport {
  uint32_t drafted = 0;
  uint32_t accepted = 0;
};

struct StartedReport {
  PromptSources sources;  // how this worker came by the prompt's rows
  uint64_t handoff_bytes = 0;
  absl::Duration handoff;
  uint32_t corrupt_blocks = 0;
};

struct FinishedReport {
  FinishReason reason = FinishReason::kNone;
  SequenceTimings timings;
};

// Called one at a time, on threads of the engine, the executors and the
// caller of Cancel; must not block. After OnDone nothing more is called.
class DecodeSink {
 public:
  virtual ~DecodeSink() = default;
  virtual void OnProgress(uint32_t processed, uint32_t total) = 0;
  virtual void OnStarted(const StartedReport& report) = 0;
  virtual void OnTokens(const std::vector<CommittedToken>& tokens,
                        const DraftReport& drafts) = 0;
  virtual void OnFinished(const FinishedReport& report) = 0;
  // The one terminal; ok only after OnFinished.
  virtual void OnDone(const absl::Status& status) = 0;
};

// Thread-safe.
class DecodeRun final : public SequenceObserver,
                        public std::enable_shared_from_this<DecodeRun> {
 public:
  // Takes a slot, room for the prompt, and hold of the leading blocks that the
  // pool has already. `table` must outlive the run, `sink` live until its
  // OnDone. Errors: kResourceExhausted; then the sink is never called.
  static absl::StatusOr<std::shared_ptr<DecodeRun>> Reserve(
      AdmissionGate::Pass pass, DecodeSpec spec, ReservationTable* table,
      DecodeSink* sink);

  // Leading tokens that this worker holds.
  uint32_t held_tokens() const { return held_tokens_; }
  const WorkerContext& context() const { return context_; }
  // Of the answer, what is committed included; within the context.
  uint32_t max_tokens() const { return *spec_.stop.max_tokens; }

  // Goes on after the prompt and `committed`, at most max_tokens; with a
  // manifest its rows are imported, else what the pool and the store have is
  // restored. A second start ends the run with kInvalidArgument.
  void Start(std::vector<TokenId> committed,
             std::optional<HandoffManifest> manifest);

  // Ends within one engine step (or one store call) with `cause`. Idempotent.
  void Cancel(const absl::Status& cause);
  // The caller sends nothing more: ends a run that was never started.
  void OnCallerFinished();

  // SequenceObserver.
  void OnProgress(uint32_t processed, uint32_t total) override;
  void OnBlockFull(uint32_t index, const kvstore::BlockKey& key,
                   const BlockRef& block) override;
  void OnTokens(const std::vector<CommittedToken>& tokens) override;
  void OnDrafts(uint32_t drafted, uint32_t accepted) override;
  void OnFinished(const absl::StatusOr<FinishReason>& result,
                  const SequenceTimings& timings,
                  const std::vector<BlockRef>& blocks,
                  uint32_t kv_tokens) override;

 private:
  enum class Phase { kReserved, kStarting, kRunning, kEnded };

  DecodeRun(AdmissionGate::Pass pass, DecodeSpec spec, ReservationTable* table,
            DecodeSink* sink);

  uint32_t prompt_tokens() const {
    return static_cast<uint32_t>(spec_.prompt.size());
  }
  HandoffId own_lease_name() const {
    return HandoffId(spec_.handoff.value() + "/decode");
  }
  // Off the caller's thread: blocks on the store.
  void Prepare(const std::optional<HandoffManifest>& manifest);
  absl::StatusOr<RestoredPrefix> ObtainPrefix(
      const std::optional<HandoffManifest>& manifest);
  // kNone unless `tokens_` are a whole answer already.
  FinishReason FinishedAlready() const;
  void StartPublisher(RestoredPrefix* prefix);
  void Submit(RestoredPrefix prefix);
  std::shared_ptr<BlockPublisher> publisher();
  absl::Status CauseOr(const absl::Status& status);
  void End(const absl::Status& status);

  const DecodeSpec spec_;
  const WorkerContext& context_;
  ReservationTable* const table_;
  DecodeSink* const sink_;
  std::stop_source stop_;
  // Set by Reserve, before anybody else has the run.
  ReservationId reservation_;
  uint32_t held_tokens_ = 0;
  // Set by Start, read by the tasks after it.
  std::vector<TokenId> tokens_;  // prompt, then committed
  bool counts_prompt_ = false;   // no other worker has counted it
  DraftReport drafts_;           // not reported yet; device thread only
  uint32_t store_tokens_ = 0;

  Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kReserved;
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);  // of Cancel
  std::optional<AdmissionGate::Pass> pass_ ABSL_GUARDED_BY(mutex_);
  SequenceId sequence_ ABSL_GUARDED_BY(mutex_);
  // Kept from eviction between Reserve and the import.
  std::vector<BlockRef> held_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<BlockPublisher> publisher_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::worker

#endif  // BATON_WORKER_DECODE_DECODE_RUN_H_
