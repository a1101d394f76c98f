// One sequence inside the engine, from submission to its end: its committed
// tokens, the key chain over them, the blocks it holds and how far their rows
// are written. Device thread only, but for the constructor.
//
//   waiting ──Admit──► running ──► (erased)
//      ▲                  │
//      └─────Preempt──────┘
#ifndef BATON_WORKER_ENGINE_LIVE_SEQUENCE_H_
#define BATON_WORKER_ENGINE_LIVE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "kvstore/block/block_key.h"
#include "services/base/ids.h"
#include "worker/cache/block_pool.h"
#include "worker/engine/commit.h"
#include "worker/engine/engine.h"
#include "worker/engine/planner.h"

namespace baton::worker {

class LiveSequence {
 public:
  // `spec` has been checked. Hashes the whole key chain: done on the
  // submitting thread.
  LiveSequence(SequenceId id, SequenceSpec spec,
               std::shared_ptr<SequenceObserver> observer, CommitRules rules,
               BlockPool* pool, absl::Duration submitted);

  SequenceId id() const { return id_; }
  SequenceObserver& observer() const { return *observer_; }
  const SamplingParams& sampling() const { return sampling_; }
  const CommitRules& rules() const { return rules_; }
  const CommittedSequence& committed() const { return committed_; }
  bool running() const { return running_; }
  uint32_t computed() const { return computed_; }
  const std::vector<BlockRef>& blocks() const { return blocks_; }
  // Pool indices of blocks().
  std::span<const uint32_t> block_table() const { return block_table_; }
  // Tokens [computed, computed + rows), the drafts behind the committed ones.
  std::span<const TokenId> NextTokens(uint32_t rows) const;
  // Tokens proposed to follow; until the next Advance or Preempt. Only the last
  // committed token may be without KV rows.
  void SetDraft(Draft draft);
  const Draft& draft() const { return draft_; }
  // How many tokens are worth drafting: those that may be committed, but one.
  uint32_t DraftRoom() const;
  DraftMethods draft_methods() const { return draft_methods_; }
  // The draft rows of all rows computed so far are right. A sequence that was
  // given a block without draft rows never is.
  bool primed() const { return pool_->draft_bytes() > 0 && primed_; }

  SequenceSnapshot Snapshot() const;

  // Takes blocks of the pool's index that reach further than the rows it has
  // (a partial block of its own is dropped for a whole one).
  void AdoptCached();
  void Admit(absl::Duration now);
  // Gives up all blocks, last first; waits.
  void Preempt();
  // Blocks for `rows` more rows. Errors: kResourceExhausted, nothing changed.
  absl::Status AllocateFor(uint32_t rows);
  // `rows` more rows are written and right; rows behind them do not count.
  void Advance(uint32_t rows);
  // Makes the full blocks findable and tells the observer of new ones.
  void PublishFullBlocks();
  // Appends a sampled token. kNone: the sequence goes on. A value if the
  // sequence is to end.
  std::optional<FinishReason> Commit(SampledToken sampled, absl::Duration now);
  // Tells the observer of the tokens since the last call.
  void EmitTokens();
  // Before EmitTokens.
  void CountDrafts(uint32_t drafted, uint32_t accepted);
  // The observer's last call; then the blocks go, last first.
  void Finish(const absl::StatusOr<FinishReason>& result);

  // From the token before (or the first row) to the last commit.
  absl::Duration last_gap() const { return last_gap_; }
  const SequenceTimings& timings() const { return timings_; }

 private:
  void ReportProgress();
  void ExtendKeys();
  void AppendBlocks(std::vector<BlockRef> blocks);

  const SequenceId id_;
  const std::shared_ptr<SequenceObserver> observer_;
  const CommitRules rules_;
  BlockPool* const pool_;
  const SamplingParams sampling_;
  const bool first_token_only_;
  const kvstore::BlockKey root_key_;
  const uint32_t initial_tokens_;  // spec.tokens
  const absl::Duration submitted_;

  const uint32_t most_drafts_;
  const DraftMethods draft_methods_;

  CommittedSequence committed_;
  std::vector<CommittedToken> unsent_;
  Draft draft_;
  std::vector<TokenId> next_tokens_;     // the last committed one, then drafts
  std::vector<kvstore::BlockKey> keys_;  // of all full blocks of tokens
  std::vector<BlockRef> blocks_;
  std::vector<uint32_t> block_table_;
  uint32_t computed_ = 0;
  bool primed_ = true;  // so are all blocks
  bool running_ = false;

  uint32_t indexed_blocks_ = 0;    // leading blocks known to be in the index
  uint32_t announced_blocks_ = 0;  // leading blocks the observer knows of
  uint32_t reported_rows_ = 0;     // highest OnProgress
  std::optional<absl::Duration> first_row_;
  std::optional<absl::Duration> first_token_;
  absl::Duration last_token_;
  absl::Duration last_gap_;
  SequenceTimings timings_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ENGINE_LIVE_SEQUENCE_H_
