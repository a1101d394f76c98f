// How often each token has occurred, for the penalties: prompt and output
// apart. A pure function of the tokens, so that a sequence that is resumed
// elsewhere has the same history. Thread-compatible.
#ifndef BATON_WORKER_SAMPLING_TOKEN_HISTORY_H_
#define BATON_WORKER_SAMPLING_TOKEN_HISTORY_H_

#include <cstdint>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "services/base/ids.h"

namespace baton::worker {

class TokenHistory {
 public:
  struct Counts {
    uint32_t prompt = 0;
    uint32_t output = 0;
    bool operator==(const Counts&) const = default;
  };

  TokenHistory() = default;
  // The first `prompt_tokens` of `tokens` are the prompt, the rest is output.
  TokenHistory(std::span<const TokenId> tokens, uint32_t prompt_tokens);

  void AppendPrompt(TokenId token) { ++counts_[token].prompt; }
  void AppendOutput(TokenId token) { ++counts_[token].output; }

  // Every token that has occurred, in no particular order.
  const absl::flat_hash_map<TokenId, Counts>& counts() const { return counts_; }

 private:
  absl::flat_hash_map<TokenId, Counts> counts_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_TOKEN_HISTORY_H_
