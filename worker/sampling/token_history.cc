#include "worker/sampling/token_history.h"

namespace baton::worker {

TokenHistory::TokenHistory(std::span<const TokenId> tokens,
                           uint32_t prompt_tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i < prompt_tokens) {
      AppendPrompt(tokens[i]);
    } else {
      AppendOutput(tokens[i]);
    }
  }
}

}  // namespace baton::worker
