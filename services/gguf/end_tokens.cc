#include "services/gguf/end_tokens.h"

#include <set>
#include <string>

namespace baton::gguf {
namespace {

// tokenizer.ggml.token_type of a token that has no text of its own.
constexpr int64_t kControl = 3;

const char* const kKeys[] = {"tokenizer.ggml.eos_token_id",
                             "tokenizer.ggml.eot_token_id",
                             "tokenizer.ggml.eom_token_id"};

bool IsEndText(const std::string& text) {
  static const char* const kTexts[] = {
      "<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|eom_id|>",
      "<|end_of_text|>", "</s>",          "<|end|>",    "<end_of_turn>"};
  for (const char* candidate : kTexts) {
    if (text == candidate) return true;
  }
  return false;
}

}  // namespace

std::vector<int32_t> EndTokens(const GgufHeader& header) {
  std::set<int32_t> found;
  const auto tokens = header.StringArray("tokenizer.ggml.tokens");
  const size_t vocabulary = tokens.ok() ? tokens->size() : 0;
  for (const char* key : kKeys) {
    const auto id = header.Unsigned(key);
    if (id.ok() && *id < vocabulary) found.insert(static_cast<int32_t>(*id));
  }
  const auto types = header.IntArray("tokenizer.ggml.token_type");
  if (types.ok() && types->size() == vocabulary) {
    for (size_t i = 0; i < vocabulary; ++i) {
      if ((*types)[i] == kControl && IsEndText((*tokens)[i])) {
        found.insert(static_cast<int32_t>(i));
      }
    }
  }
  return std::vector<int32_t>(found.begin(), found.end());
}

}  // namespace baton::gguf
