#include "worker/engine/commit.h"

#include <algorithm>
#include <limits>

namespace baton::worker {

CommitRules::CommitRules(const StopConditions& stop,
                         std::span<const TokenId> eos_tokens,
                         uint32_t context_length)
    : end_tokens_(stop.stop_token_ids),
      min_tokens_(stop.min_tokens),
      max_tokens_(
          stop.max_tokens.value_or(std::numeric_limits<uint32_t>::max())),
      context_length_(context_length) {
  if (!stop.ignore_eos) {
    end_tokens_.insert(end_tokens_.end(), eos_tokens.begin(), eos_tokens.end());
  }
  std::sort(end_tokens_.begin(), end_tokens_.end());
  end_tokens_.erase(std::unique(end_tokens_.begin(), end_tokens_.end()),
                    end_tokens_.end());
}

std::span<const TokenId> CommitRules::Masked(
    const CommittedSequence& sequence) const {
  if (sequence.output_tokens() >= min_tokens_) return {};
  return end_tokens_;
}

uint32_t CommitRules::Room(const CommittedSequence& sequence) const {
  const uint32_t tokens = static_cast<uint32_t>(sequence.tokens.size());
  const uint32_t output = sequence.output_tokens();
  return std::min(max_tokens_ > output ? max_tokens_ - output : 0,
                  context_length_ > tokens ? context_length_ - tokens : 0);
}

FinishReason CommitRules::Commit(TokenId token,
                                 CommittedSequence* sequence) const {
  sequence->tokens.push_back(token);
  sequence->history.AppendOutput(token);
  if (std::binary_search(end_tokens_.begin(), end_tokens_.end(), token)) {
    return FinishReason::kStop;
  }
  if (sequence->output_tokens() >= max_tokens_ ||
      sequence->tokens.size() >= context_length_) {
    return FinishReason::kLength;
  }
  return FinishReason::kNone;
}

}  // namespace baton::worker
