// The token ids that `baton perplexity` scores, checked before a model is
// loaded.
#ifndef BATON_SERVICES_CLI_PERPLEXITY_TEXT_H_
#define BATON_SERVICES_CLI_PERPLEXITY_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"

namespace baton::cli {

struct PerplexityText {
  std::vector<TokenId> tokens;
  TokenId bos = -1;  // that starts each chunk; -1 = the model adds none
};

struct PerplexityTextSource {
  std::string text_path;
  std::string model_path;
  std::string base_path;  // empty = none
  uint32_t context = 512;
};

// Tokenises the whole file, without its last newline, as plain text: a special
// token's name in it stays text. Errors, one line with the file's name: of
// ReadFile and gguf::GgufHeader::FromFile; kUnimplemented (a tokenizer that
// Baton does not know); kInvalidArgument (a context longer than a model's, a
// text shorter than one context); kFailedPrecondition (the base tokenises the
// text otherwise).
absl::StatusOr<PerplexityText> ReadPerplexityText(
    const PerplexityTextSource& source);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_PERPLEXITY_TEXT_H_
