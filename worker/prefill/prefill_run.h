// One prompt on its way through a prefill worker: restore, compute, first
// token, publish, manifest. Independent of the transport.
//
//   restoring -> computing -> publishing -> ended
//
// and to ended from each of them, by failure or Cancel.
#ifndef BATON_WORKER_PREFILL_PREFILL_RUN_H_
#define BATON_WORKER_PREFILL_PREFILL_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/mutex.h"
#include "worker/engine/engine.h"
#include "worker/handoff/admission_gate.h"
#include "worker/handoff/block_publisher.h"
#include "worker/handoff/handoff_manifest.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {

struct PrefillSpec {
  RequestId request;
  HandoffId handoff;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  StopConditions stop;
  kvstore::BlockKey root;
};

struct FirstTokenReport {
  CommittedToken token;
  FinishReason finish_reason = FinishReason::kNone;  // kNone = goes on
  PromptSources sources;
  absl::Duration prefill;
  absl::Duration queue;
};

// Called one at a time, on threads of the engine and the executors; must not
// block. After OnDone nothing more is called.
class PrefillSink {
 public:
  virtual ~PrefillSink() = default;
  virtual void OnProgress(uint32_t processed, uint32_t total) = 0;
  virtual void OnFirstToken(const FirstTokenReport& report) = 0;
  // Without blocks if nothing could be published: the receiver computes.
  virtual void OnManifest(const HandoffManifest& manifest) = 0;
  // The one terminal. By then all that the run held is being given back.
  virtual void OnDone(const absl::Status& status) = 0;
};

// Thread-safe.
class PrefillRun final : public SequenceObserver,
                         public std::enable_shared_from_this<PrefillRun> {
 public:
  // Begins; `sink` must live until its OnDone, which may come in this call
  // (kResourceExhausted: too much is waiting).
  static std::shared_ptr<PrefillRun> Start(AdmissionGate::Pass pass,
                                           PrefillSpec spec, PrefillSink* sink);

  // The caller left: ends within one engine step (or one store call) with
  // kCancelled. Idempotent.
  void Cancel();
  // After OnDone: whether the caller has the manifest. If so its lease is the
  // receiver's from now on, else it is given back (as it is without a call).
  void OnDelivered(bool delivered);

  // SequenceObserver.
  void OnProgress(uint32_t processed, uint32_t total) override;
  void OnBlockFull(uint32_t index, const kvstore::BlockKey& key,
                   const BlockRef& block) override;
  void OnTokens(const std::vector<CommittedToken>& tokens) override;
  void OnFinished(const absl::StatusOr<FinishReason>& result,
                  const SequenceTimings& timings,
                  const std::vector<BlockRef>& blocks,
                  uint32_t kv_tokens) override;

 private:
  PrefillRun(AdmissionGate::Pass pass, PrefillSpec spec, PrefillSink* sink);

  void Restore();
  void StartPublisher(RestoredPrefix* prefix);
  void Submit(RestoredPrefix prefix);
  void Publish(const std::vector<BlockRef>& blocks, uint32_t kv_tokens);
  void OnPublished(PublishedPrefix published);
  std::shared_ptr<BlockPublisher> publisher();
  void End(const absl::Status& status);

  const PrefillSpec spec_;
  const WorkerContext& context_;
  PrefillSink* const sink_;
  std::stop_source stop_;
  uint32_t store_tokens_ = 0;            // written before Submit
  std::optional<CommittedToken> first_;  // device thread, then publishing

  Mutex mutex_;
  std::optional<AdmissionGate::Pass> pass_ ABSL_GUARDED_BY(mutex_);
  SequenceId sequence_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<BlockPublisher> publisher_ ABSL_GUARDED_BY(mutex_);
  // Of the manifest, renewed until that is delivered.
  std::unique_ptr<HeldLease> handed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PREFILL_PREFILL_RUN_H_
