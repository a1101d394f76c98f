#include "worker/engine/device_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"

namespace baton::worker {

DeviceLoop::DeviceLoop(const Engine::Options& options, Forward* forward,
                       BlockPool* pool, const Clock* clock,
                       EngineMetrics* metrics, Drafter* drafter,
                       SamplingChain chain)
    : options_(options),
      forward_(forward),
      pool_(pool),
      clock_(clock),
      metrics_(metrics),
      drafter_(drafter),
      chain_(std::move(chain)) {}

void DeviceLoop::Add(std::unique_ptr<LiveSequence> sequence) {
  sequences_.push_back(std::move(sequence));
}

void DeviceLoop::Cancel(SequenceId id) {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i]->id() != id) continue;
    End(i, absl::CancelledError("the request was cancelled"));
    ForgetEnded();
    return;
  }
}

void DeviceLoop::CancelAll() {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    End(i, absl::CancelledError("the worker is stopping"));
  }
  ForgetEnded();
}

StepOutcome DeviceLoop::Step() {
  if (sequences_.empty()) return StepOutcome::kIdle;
  AdoptCached();
  ProposeDrafts();
  StepPlan plan = PlanStep(Snapshot());
  Apply(plan);
  const StepBatch batch = BuildBatch(&plan);
  if (batch.sequences.empty()) {
    const bool moved = !plan.preempt.empty() || !plan.fail.empty();
    ForgetEnded();
    return moved ? StepOutcome::kMoved : StepOutcome::kStalled;
  }
  const absl::StatusOr<StepLogits> logits = Run(batch, plan);
  uint32_t logit_row = 0;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const StepPlan::Rows& rows = plan.rows[i];
    if (logits.ok()) {
      Complete(i, rows, *logits, logit_row);
    } else {
      End(rows.sequence, logits.status());
    }
    logit_row += rows.logit_rows;
  }
  ForgetEnded();
  return StepOutcome::kMoved;
}

EngineLoad DeviceLoop::load() const {
  EngineLoad load;
  for (const auto& sequence : sequences_) {
    ++(sequence->running() ? load.running : load.waiting);
  }
  return load;
}

std::vector<SequenceId> DeviceLoop::TakeEnded() {
  return std::exchange(ended_, {});
}

void DeviceLoop::AdoptCached() {
  uint32_t slots = options_.max_sequences;
  for (const auto& sequence : sequences_) {
    if (slots == 0) return;
    --slots;
    const size_t tokens = sequence->committed().tokens.size();
    if (tokens - sequence->computed() > 1) sequence->AdoptCached();
  }
}

void DeviceLoop::ProposeDrafts() {
  if (drafter_ == nullptr || options_.most_drafts == 0) return;
  std::vector<DraftRequest> requests;
  std::vector<LiveSequence*> drafting;
  // Those that run, and those that this step may admit.
  uint32_t slots = options_.max_sequences;
  for (const auto& sequence : sequences_) {
    const std::vector<TokenId>& tokens = sequence->committed().tokens;
    if (slots == 0) break;
    --slots;
    if (tokens.size() - sequence->computed() != 1) continue;
    sequence->SetDraft({});
    const uint32_t most = std::min(options_.most_drafts, sequence->DraftRoom());
    if (most == 0) continue;
    if (drafter_->writes_rows()) MakeRoomForDraft(sequence.get(), most);
    requests.push_back({sequence->id(), tokens, most, sequence->draft_methods(),
                        sequence->block_table(), sequence->primed()});
    drafting.push_back(sequence.get());
  }
  if (requests.empty()) return;
  std::vector<Draft> drafts = drafter_->Propose(requests);
  for (size_t i = 0; i < drafting.size(); ++i) {
    drafting[i]->SetDraft(std::move(drafts[i]));
  }
}

// Not the blocks that sequences will need soon: a draft can do with less room.
void DeviceLoop::MakeRoomForDraft(LiveSequence* sequence, uint32_t rows) {
  if (pool_->Available() > 2 * sequences_.size()) {
    sequence->AllocateFor(rows).IgnoreError();
  }
}

PlannerSnapshot DeviceLoop::Snapshot() const {
  PlannerSnapshot snapshot;
  snapshot.sequences.reserve(sequences_.size());
  for (const auto& sequence : sequences_) {
    snapshot.sequences.push_back(sequence->Snapshot());
  }
  const BlockPoolStats stats = pool_->Stats();
  snapshot.available_blocks = static_cast<uint32_t>(stats.free + stats.cached);
  snapshot.total_blocks = static_cast<uint32_t>(stats.total);
  snapshot.block_tokens = pool_->block_tokens();
  snapshot.max_batch_tokens = options_.max_batch_tokens;
  snapshot.max_sequences = options_.max_sequences;
  snapshot.max_prefill_tokens_beside_decode =
      options_.max_prefill_tokens_beside_decode;
  return snapshot;
}

void DeviceLoop::Apply(const StepPlan& plan) {
  for (size_t i : plan.fail) {
    End(i, absl::ResourceExhaustedError(
               "the sequence has outgrown the worker's KV memory"));
  }
  for (size_t i : plan.preempt) {
    if (sequences_[i]->running()) metrics_->OnPreempted();
    sequences_[i]->Preempt();
  }
  for (size_t i : plan.admit) sequences_[i]->Admit(clock_->Monotonic());
}

StepBatch DeviceLoop::BuildBatch(StepPlan* plan) {
  // The pool is shared with imports, which may have been quicker since the
  // snapshot: who gets no block now waits for the next step.
  std::erase_if(plan->rows, [&](const StepPlan::Rows& rows) {
    return !sequences_[rows.sequence]->AllocateFor(rows.rows).ok();
  });
  StepBatch batch;
  for (const StepPlan::Rows& rows : plan->rows) {
    const LiveSequence& sequence = *sequences_[rows.sequence];
    SequenceRows row;
    row.tokens = sequence.NextTokens(rows.rows);
    row.start_position = sequence.computed();
    row.block_table = sequence.block_table();
    row.logit_rows = rows.logit_rows;
    batch.sequences.push_back(row);
  }
  return batch;
}

absl::StatusOr<StepLogits> DeviceLoop::Run(const StepBatch& batch,
                                           const StepPlan& plan) {
  uint32_t decode_rows = 0;
  uint32_t prefill_rows = 0;
  size_t logit_rows = 0;
  for (const StepPlan::Rows& rows : plan.rows) {
    (rows.rows == rows.logit_rows ? decode_rows : prefill_rows) += rows.rows;
    logit_rows += rows.logit_rows;
  }
  const absl::Duration start = clock_->Monotonic();
  absl::StatusOr<StepLogits> logits = forward_->Run(batch);
  const absl::Duration duration = clock_->Monotonic() - start;
  metrics_->OnStep(duration, decode_rows, prefill_rows);
  if (drafter_ != nullptr && prefill_rows == 0 && logits.ok()) {
    uint64_t context = 0;
    for (const SequenceRows& rows : batch.sequences) {
      context += rows.start_position + rows.tokens.size();
    }
    drafter_->OnStep(decode_rows, context, duration);
  }
  if (!logits.ok()) {
    Log(LogLevel::kError, "forward pass failed",
        {{"sequences", plan.rows.size()},
         {"error", logits.status().ToString()}});
    return absl::InternalError(
        absl::StrCat("forward pass: ", logits.status().message()));
  }
  if (logits->vocabulary != forward_->vocabulary() ||
      logits->values.size() != logit_rows * logits->vocabulary) {
    return absl::InternalError("forward pass: wrong number of logits");
  }
  return logits;
}

void DeviceLoop::Complete(size_t index, const StepPlan::Rows& rows,
                          const StepLogits& logits, uint32_t logit_row) {
  LiveSequence& sequence = *sequences_[rows.sequence];
  const uint32_t drafts = rows.logit_rows > 0 ? rows.logit_rows - 1 : 0;
  Draft draft = sequence.draft();
  draft.tokens.resize(drafts);
  // Rows whose token is committed and whose logits were used.
  uint32_t used = 0;
  uint32_t accepted = 0;
  std::optional<absl::StatusOr<FinishReason>> end;
  while (used < rows.logit_rows) {
    auto sampled = Sample(sequence, logits.row(logit_row + used));
    if (!sampled.ok()) {
      end = absl::InternalError(
          absl::StrCat("sampling: ", sampled.status().message()));
      break;
    }
    const bool as_drafted =
        used < drafts && sampled->token == draft.tokens[used];
    ++used;
    accepted += as_drafted ? 1 : 0;
    const auto reason =
        sequence.Commit(*std::move(sampled), clock_->Monotonic());
    metrics_->OnToken(sequence);
    if (reason) end = *reason;
    if (end || !as_drafted) break;
  }
  // Rows that gave broken logits are not published.
  if (rows.logit_rows == 0 || used > 0) {
    const uint32_t kept = rows.rows - rows.logit_rows + used;
    forward_->Keep(index, kept);
    sequence.Advance(kept);
  }
  sequence.PublishFullBlocks();
  if (drafts > 0) {
    sequence.CountDrafts(drafts, accepted);
    metrics_->OnDraft(draft.method, drafts, accepted);
    drafter_->OnVerified(sequence.id(), draft, accepted);
  }
  sequence.EmitTokens();
  if (end) End(rows.sequence, *end);
}

absl::StatusOr<SampledToken> DeviceLoop::Sample(const LiveSequence& sequence,
                                                std::span<const float> logits) {
  const CommittedSequence& committed = sequence.committed();
  return chain_.Sample(
      {.logits = logits,
       .params = sequence.sampling(),
       .history = committed.history,
       .position = static_cast<uint32_t>(committed.tokens.size()),
       .masked = sequence.rules().Masked(committed)});
}

void DeviceLoop::End(size_t index, const absl::StatusOr<FinishReason>& result) {
  LiveSequence& sequence = *sequences_[index];
  sequence.Finish(result);
  metrics_->OnFinished(sequence.timings());
  ended_.push_back(sequence.id());
  if (drafter_ != nullptr) drafter_->Forget(sequence.id());
  sequences_[index].reset();
}

void DeviceLoop::ForgetEnded() { std::erase(sequences_, nullptr); }

}  // namespace baton::worker
