#include "services/text/vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/base/status_macros.h"

namespace baton::text {
namespace {

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTokenType[] = "tokenizer.ggml.token_type";
constexpr char kBos[] = "tokenizer.ggml.bos_token_id";
constexpr char kEos[] = "tokenizer.ggml.eos_token_id";
// Read by gguf::EndTokens, which leaves out what it cannot use.
constexpr const char* kFurtherEnds[] = {"tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
constexpr char kAddBos[] = "tokenizer.ggml.add_bos_token";
constexpr char kAddEos[] = "tokenizer.ggml.add_eos_token";

constexpr absl::string_view kAlwaysControl[] = {
    // Ends of a turn or of a text.
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
    "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
    "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<｜end▁of▁sentence｜>", "[e~[",
    // Gaps to fill and their files.
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>",
    "<PRE>", "<|code_prefix|>", "<|prefix|>", "<|fim_suffix|>", "<fim-suffix>",
    "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "<|code_suffix|>", "<|suffix|>",
    "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>",
    "<|code_middle|>", "<|middle|>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>",
    "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>",
    "<reponame>", "<|file_sep|>"};

bool IsAlwaysControl(absl::string_view text) {
  return std::find(std::begin(kAlwaysControl), std::end(kAlwaysControl),
                   text) != std::end(kAlwaysControl);
}

TokenKind KindOf(int64_t type) {
  return type >= 1 && type <= 6 ? static_cast<TokenKind>(type)
                                : TokenKind::kUnused;
}

absl::StatusOr<TokenId> OptionalToken(const gguf::GgufHeader& header,
                                      absl::string_view key, size_t count) {
  if (!header.Has(key)) return -1;
  BATON_ASSIGN_OR_RETURN(const uint64_t id, header.Unsigned(key));
  if (id >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": token ", id, " is outside the vocabulary of ", count));
  }
  return static_cast<TokenId>(id);
}

absl::StatusOr<bool> OptionalBool(const gguf::GgufHeader& header,
                                  absl::string_view key, bool otherwise) {
  if (!header.Has(key)) return otherwise;
  return header.Bool(key);
}

absl::Status LoadKinds(const gguf::GgufHeader& header, Vocabulary& vocabulary) {
  const size_t count = vocabulary.texts.size();
  vocabulary.kinds.assign(count, TokenKind::kNormal);
  if (header.Has(kTokenType)) {
    BATON_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                           header.IntArray(kTokenType));
    if (types.size() < count) {
      return absl::InvalidArgumentError(absl::StrCat(
          kTokenType, ": ", types.size(), " entries for ", count, " tokens"));
    }
    for (size_t i = 0; i < count; ++i) vocabulary.kinds[i] = KindOf(types[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    if (IsAlwaysControl(vocabulary.texts[i])) {
      vocabulary.kinds[i] = TokenKind::kControl;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Vocabulary> LoadVocabulary(const gguf::GgufHeader& header,
                                          bool family_adds_bos) {
  Vocabulary vocabulary;
  BATON_ASSIGN_OR_RETURN(vocabulary.texts, header.StringArray(kTokens));
  const size_t count = vocabulary.texts.size();
  if (count == 0 || count > std::numeric_limits<TokenId>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kTokens, ": ", count, " tokens"));
  }
  BATON_RETURN_IF_ERROR(LoadKinds(header, vocabulary));
  BATON_ASSIGN_OR_RETURN(vocabulary.bos, OptionalToken(header, kBos, count));
  BATON_ASSIGN_OR_RETURN(vocabulary.eos, OptionalToken(header, kEos, count));
  for (const char* key : kFurtherEnds) {
    BATON_RETURN_IF_ERROR(OptionalToken(header, key, count).status());
  }
  BATON_ASSIGN_OR_RETURN(vocabulary.adds_bos,
                         OptionalBool(header, kAddBos, family_adds_bos));
  BATON_ASSIGN_OR_RETURN(vocabulary.adds_eos,
                         OptionalBool(header, kAddEos, false));
  if (vocabulary.adds_bos && vocabulary.bos < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kBos, ": missing, but prompts start with it"));
  }
  if (vocabulary.adds_eos && vocabulary.eos < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kEos, ": missing, but prompts end with it"));
  }
  return vocabulary;
}

}  // namespace baton::text
