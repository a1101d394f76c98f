// The engine without its thread: all live sequences and one step over them,
// draft → plan → forward → sample → commit → publish → emit. Tests drive it
// step by step. Runs on the device thread only.
//
// Drafts are verified by sampling: at each of their rows the token is drawn as
// it would be without drafts, from the tokens committed so far; the next row
// counts only if its draft is that token. So the output is the same whatever
// was drafted, and rows behind a refused draft are written anew.
//
// A fault of one sequence (a row of broken logits) ends that sequence. A
// forward pass that fails ends the sequences of that step, since their rows
// may be half written. Nobody else notices either.
#ifndef BATON_WORKER_ENGINE_DEVICE_LOOP_H_
#define BATON_WORKER_ENGINE_DEVICE_LOOP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "services/base/clock.h"
#include "services/base/ids.h"
#include "worker/cache/block_pool.h"
#include "worker/engine/engine.h"
#include "worker/engine/engine_metrics.h"
#include "worker/engine/live_sequence.h"
#include "worker/engine/planner.h"
#include "worker/model/forward.h"
#include "worker/sampling/sampling_chain.h"

namespace baton::worker {

enum class StepOutcome {
  kIdle,  // no sequences
  kMoved,
  // Nothing could run: blocks are held by somebody outside the engine.
  kStalled,
};

class DeviceLoop {
 public:
  // Pointers must outlive the loop; `drafter` may be null.
  DeviceLoop(const Engine::Options& options, Forward* forward, BlockPool* pool,
             const Clock* clock, EngineMetrics* metrics,
             Drafter* drafter = nullptr, SamplingChain chain = {});

  void Add(std::unique_ptr<LiveSequence> sequence);
  // Ends it with kCancelled, if it is here.
  void Cancel(SequenceId id);
  void CancelAll();
  StepOutcome Step();

  EngineLoad load() const;
  // Those that have ended since the last call.
  std::vector<SequenceId> TakeEnded();

 private:
  void AdoptCached();
  void ProposeDrafts();
  void MakeRoomForDraft(LiveSequence* sequence, uint32_t rows);
  PlannerSnapshot Snapshot() const;
  // Everything of the plan but its rows.
  void Apply(const StepPlan& plan);
  // Allocates blocks; drops from `plan` the rows that get none.
  StepBatch BuildBatch(StepPlan* plan);
  absl::StatusOr<StepLogits> Run(const StepBatch& batch, const StepPlan& plan);
  // Samples, commits, advances. `index`: of the sequence in the batch;
  // `logit_row`: its first.
  void Complete(size_t index, const StepPlan::Rows& rows,
                const StepLogits& logits, uint32_t logit_row);
  absl::StatusOr<SampledToken> Sample(const LiveSequence& sequence,
                                      std::span<const float> logits);
  void End(size_t index, const absl::StatusOr<FinishReason>& result);
  void ForgetEnded();

  const Engine::Options options_;
  Forward* const forward_;
  BlockPool* const pool_;
  const Clock* const clock_;
  EngineMetrics* const metrics_;
  Drafter* const drafter_;
  SamplingChain chain_;
  // In arrival order; null between End and ForgetEnded.
  std::vector<std::unique_ptr<LiveSequence>> sequences_;
  std::vector<SequenceId> ended_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ENGINE_DEVICE_LOOP_H_
