#include "services/cli/perplexity_text.h"

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/cli/base/read_file.h"
#include "services/gguf/gguf_header.h"
#include "services/text/tokenizer.h"

namespace baton::cli {
namespace {

absl::Status CheckContext(const gguf::GgufHeader& header, uint32_t context) {
  BATON_ASSIGN_OR_RETURN(const std::string architecture,
                         header.String("general.architecture"));
  BATON_ASSIGN_OR_RETURN(const uint64_t longest,
                         header.Unsigned(architecture + ".context_length"));
  if (context <= longest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--context ", context,
                   " is longer than the model's context of ", longest));
}

absl::StatusOr<PerplexityText> Tokenise(const gguf::GgufHeader& header,
                                        const std::string& text,
                                        uint32_t context) {
  BATON_RETURN_IF_ERROR(CheckContext(header, context));
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer,
                         text::Tokenizer::Create(header));
  PerplexityText result;
  result.tokens = tokenizer->Encode(text, /*add_special=*/true,
                                    /*parse_special=*/false);
  if (tokenizer->adds_bos()) result.bos = tokenizer->bos();
  return result;
}

absl::StatusOr<PerplexityText> TokeniseFor(const std::string& model_path,
                                           const std::string& text,
                                           uint32_t context) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<gguf::GgufHeader> header,
                         gguf::GgufHeader::FromFile(model_path));
  absl::StatusOr<PerplexityText> result = Tokenise(*header, text, context);
  if (result.ok()) return result;
  return absl::Status(
      result.status().code(),
      absl::StrCat(model_path, ": ", result.status().message()));
}

absl::Status CheckSameTokens(const PerplexityText& model,
                             const PerplexityText& base,
                             const std::string& base_path) {
  if (base.tokens == model.tokens && base.bos == model.bos) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      base_path, ": its tokenizer gives this text other token ids (",
      base.tokens.size(), ") than the model's (", model.tokens.size(),
      "): the two cannot be compared"));
}

}  // namespace

absl::StatusOr<PerplexityText> ReadPerplexityText(
    const PerplexityTextSource& source) {
  BATON_ASSIGN_OR_RETURN(std::string text, ReadFile(source.text_path));
  // As llama-perplexity reads it.
  if (!text.empty() && text.back() == '\n') text.pop_back();
  BATON_ASSIGN_OR_RETURN(PerplexityText result,
                         TokeniseFor(source.model_path, text, source.context));
  if (!source.base_path.empty()) {
    BATON_ASSIGN_OR_RETURN(const PerplexityText base,
                           TokeniseFor(source.base_path, text, source.context));
    BATON_RETURN_IF_ERROR(CheckSameTokens(result, base, source.base_path));
  }
  if (result.tokens.size() < source.context) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.text_path, ": its ", result.tokens.size(),
                     " tokens are fewer than one context of ", source.context));
  }
  return result;
}

}  // namespace baton::cli
