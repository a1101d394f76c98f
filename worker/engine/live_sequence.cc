#include "worker/engine/live_sequence.h"

#include <algorithm>
#include <utility>

#include "services/base/checked_math.h"
#include "services/base/status_macros.h"

namespace baton::worker {

LiveSequence::LiveSequence(SequenceId id, SequenceSpec spec,
                           std::shared_ptr<SequenceObserver> observer,
                           CommitRules rules, BlockPool* pool,
                           absl::Duration submitted)
    : id_(id),
      observer_(std::move(observer)),
      rules_(std::move(rules)),
      pool_(pool),
      sampling_(std::move(spec.sampling)),
      first_token_only_(spec.first_token_only),
      root_key_(spec.root_key),
      initial_tokens_(static_cast<uint32_t>(spec.tokens.size())),
      submitted_(submitted),
      most_drafts_(spec.most_drafts),
      draft_methods_(spec.draft_methods),
      committed_(std::move(spec.tokens), spec.prompt_tokens),
      computed_(spec.restored_tokens),
      announced_blocks_(spec.restored_tokens / pool->block_tokens()),
      reported_rows_(spec.restored_tokens) {
  AppendBlocks(std::move(spec.restored));
  ExtendKeys();
}

std::span<const TokenId> LiveSequence::NextTokens(uint32_t rows) const {
  if (computed_ + rows > committed_.tokens.size()) {
    return std::span<const TokenId>(next_tokens_).first(rows);
  }
  return std::span<const TokenId>(committed_.tokens).subspan(computed_, rows);
}

void LiveSequence::SetDraft(Draft draft) {
  draft_ = std::move(draft);
  next_tokens_ = {committed_.tokens.back()};
  next_tokens_.insert(next_tokens_.end(), draft_.tokens.begin(),
                      draft_.tokens.end());
}

uint32_t LiveSequence::DraftRoom() const {
  if (first_token_only_) return 0;
  const uint32_t room = rules_.Room(committed_);
  return std::min(most_drafts_, room > 0 ? room - 1 : 0);
}

SequenceSnapshot LiveSequence::Snapshot() const {
  SequenceSnapshot snapshot;
  snapshot.running = running_;
  snapshot.tokens = static_cast<uint32_t>(committed_.tokens.size());
  snapshot.computed = computed_;
  snapshot.drafts = static_cast<uint32_t>(draft_.tokens.size());
  snapshot.blocks = static_cast<uint32_t>(blocks_.size());
  for (const BlockRef& block : blocks_) {
    snapshot.releasable_blocks += block.unique();
  }
  return snapshot;
}

void LiveSequence::AdoptCached() {
  const uint32_t block_tokens = pool_->block_tokens();
  const uint32_t full = computed_ / block_tokens;
  const uint32_t reusable =
      kvstore::ReusableTokens(static_cast<uint32_t>(committed_.tokens.size()),
                              block_tokens) /
      block_tokens;
  if (reusable <= full) return;
  std::vector<BlockRef> found =
      pool_->Match(std::span(keys_).subspan(full, reusable - full));
  if (found.empty()) return;
  ReleaseTailFirst(&blocks_, full);
  block_table_.resize(full);
  AppendBlocks(std::move(found));
  computed_ = static_cast<uint32_t>(blocks_.size()) * block_tokens;
  PublishFullBlocks();
  ReportProgress();
}

void LiveSequence::Admit(absl::Duration now) {
  running_ = true;
  if (!first_row_) {
    first_row_ = now;
    last_token_ = now;
    timings_.queue = now - submitted_;
  }
}

void LiveSequence::Preempt() {
  running_ = false;
  draft_.tokens.clear();
  ReleaseTailFirst(&blocks_);
  block_table_.clear();
  computed_ = 0;
  primed_ = true;
  indexed_blocks_ = 0;
}

absl::Status LiveSequence::AllocateFor(uint32_t rows) {
  const size_t wanted = DivideUp(computed_ + rows, pool_->block_tokens());
  if (wanted <= blocks_.size()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(
      std::vector<BlockRef> blocks,
      pool_->TryAllocate(static_cast<uint32_t>(wanted - blocks_.size())));
  if (primed()) {
    for (const BlockRef& block : blocks) block.MarkPrimed();
  }
  AppendBlocks(std::move(blocks));
  return absl::OkStatus();
}

void LiveSequence::Advance(uint32_t rows) {
  const uint32_t end = std::min(computed_ + rows, initial_tokens_);
  const uint32_t start = std::max(computed_, reported_rows_);
  if (end > start) timings_.computed_tokens += end - start;
  computed_ += rows;
  draft_.tokens.clear();
}

void LiveSequence::PublishFullBlocks() {
  const uint32_t full = computed_ / pool_->block_tokens();
  for (; indexed_blocks_ < full; ++indexed_blocks_) {
    pool_->Index(keys_[indexed_blocks_], blocks_[indexed_blocks_]);
  }
  for (; announced_blocks_ < full; ++announced_blocks_) {
    observer_->OnBlockFull(announced_blocks_, keys_[announced_blocks_],
                           blocks_[announced_blocks_]);
  }
  ReportProgress();
}

std::optional<FinishReason> LiveSequence::Commit(SampledToken sampled,
                                                 absl::Duration now) {
  if (!first_token_) {
    first_token_ = now;
    timings_.prefill = now - *first_row_;
  }
  last_gap_ = now - last_token_;
  last_token_ = now;
  timings_.decode = now - *first_token_;
  ++timings_.generated_tokens;
  const uint32_t position = static_cast<uint32_t>(committed_.tokens.size());
  const FinishReason reason = rules_.Commit(sampled.token, &committed_);
  ExtendKeys();
  unsent_.push_back({std::move(sampled), position});
  if (reason != FinishReason::kNone || first_token_only_) return reason;
  return std::nullopt;
}

void LiveSequence::EmitTokens() {
  if (!unsent_.empty()) observer_->OnTokens(std::exchange(unsent_, {}));
}

void LiveSequence::CountDrafts(uint32_t drafted, uint32_t accepted) {
  timings_.drafted_tokens += drafted;
  timings_.accepted_tokens += accepted;
  observer_->OnDrafts(drafted, accepted);
}

void LiveSequence::Finish(const absl::StatusOr<FinishReason>& result) {
  observer_->OnFinished(result, timings_, blocks_, computed_);
  ReleaseTailFirst(&blocks_);
  block_table_.clear();
}

void LiveSequence::ReportProgress() {
  const uint32_t rows = std::min(computed_, initial_tokens_);
  if (rows <= reported_rows_) return;
  reported_rows_ = rows;
  observer_->OnProgress(rows, initial_tokens_);
}

void LiveSequence::ExtendKeys() {
  const uint32_t block_tokens = pool_->block_tokens();
  const std::span<const TokenId> tokens = committed_.tokens;
  while ((keys_.size() + 1) * block_tokens <= tokens.size()) {
    const kvstore::BlockKey parent = keys_.empty() ? root_key_ : keys_.back();
    keys_.push_back(kvstore::NextKey(
        parent, tokens.subspan(keys_.size() * block_tokens, block_tokens)));
  }
}

void LiveSequence::AppendBlocks(std::vector<BlockRef> blocks) {
  for (BlockRef& block : blocks) {
    block_table_.push_back(block.index());
    blocks_.push_back(std::move(block));
  }
  primed_ = std::all_of(blocks_.begin(), blocks_.end(),
                        [](const BlockRef& block) { return block.primed(); });
}

}  // namespace baton::worker
