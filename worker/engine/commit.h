// The one place where a sampled token becomes part of a sequence, for first
// and later tokens alike, and where a sequence ends. Pure but for the sequence
// it extends.
#ifndef BATON_WORKER_ENGINE_COMMIT_H_
#define BATON_WORKER_ENGINE_COMMIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "services/base/ids.h"
#include "worker/sampling/sampling_params.h"
#include "worker/sampling/token_history.h"

namespace baton::worker {

// The committed tokens of a sequence and what follows from them alone.
// Thread-compatible.
struct CommittedSequence {
  CommittedSequence(std::vector<TokenId> tokens, uint32_t prompt_tokens)
      : tokens(std::move(tokens)),
        prompt_tokens(prompt_tokens),
        history(this->tokens, prompt_tokens) {}

  std::vector<TokenId> tokens;  // prompt, then output
  uint32_t prompt_tokens = 0;
  TokenHistory history;

  uint32_t output_tokens() const {
    return static_cast<uint32_t>(tokens.size()) - prompt_tokens;
  }
};

// When a sequence ends. Immutable.
class CommitRules {
 public:
  // `eos_tokens` end a sequence unless stop.ignore_eos.
  CommitRules(const StopConditions& stop, std::span<const TokenId> eos_tokens,
              uint32_t context_length);

  // Tokens that must not be drawn next: those that would end the sequence
  // before min_tokens of output.
  std::span<const TokenId> Masked(const CommittedSequence& sequence) const;

  // How many more tokens may be committed.
  uint32_t Room(const CommittedSequence& sequence) const;

  // Appends `token`, which is committed even if it ends the sequence.
  //   kStop    an end or stop token
  //   kLength  max_tokens reached, or the context is full
  //   kNone    the sequence goes on
  FinishReason Commit(TokenId token, CommittedSequence* sequence) const;

 private:
  std::vector<TokenId> end_tokens_;  // ascending, without repetition
  uint32_t min_tokens_;
  uint32_t max_tokens_;
  uint32_t context_length_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ENGINE_COMMIT_H_
