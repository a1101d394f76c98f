#include "services/text/tokenizer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/gguf/end_tokens.h"
#include "services/text/byte_alphabet.h"
#include "services/text/byte_pair_encoder.h"
#include "services/text/pretokenizer.h"
#include "services/text/special_tokens.h"
#include "services/text/vocabulary.h"

namespace baton::text {
namespace {

constexpr char kModel[] = "tokenizer.ggml.model";
constexpr char kPre[] = "tokenizer.ggml.pre";
constexpr char kMerges[] = "tokenizer.ggml.merges";
// One row a token: [width, tokens].
constexpr char kEmbedding[] = "token_embd.weight";

// What text a token gives, and whether text can become it.
struct TokenTexts {
  std::vector<std::string> bytes;
  BytePairEncoder::Vocabulary mergeable;
  std::vector<SpecialTokens::Entry> special;
};

TokenTexts MakeTexts(const Vocabulary& vocabulary) {
  TokenTexts out;
  const size_t count = vocabulary.texts.size();
  out.bytes.resize(count);
  out.mergeable.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string& text = vocabulary.texts[i];
    const TokenKind kind = vocabulary.kinds[i];
    const bool control =
        kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    if (control || kind == TokenKind::kUserDefined) {
      out.bytes[i] = text;
      out.special.push_back({text, static_cast<TokenId>(i), control});
      // A control token is never the result of merges: a client could spell it.
      if (control) continue;
    }
    std::optional<std::string> bytes = BytesOfAlphabet(text);
    if (!bytes.has_value()) continue;
    if (kind == TokenKind::kNormal) out.bytes[i] = *bytes;
    out.mergeable[i] = *std::move(bytes);
  }
  return out;
}

class GgufTokenizer : public Tokenizer {
 public:
  GgufTokenizer(Vocabulary vocabulary, TokenTexts texts,
                std::unique_ptr<Pretokenizer> pretokenizer,
                BytePairEncoder encoder, std::vector<TokenId> end_tokens)
      : vocabulary_(std::move(vocabulary)),
        bytes_(std::move(texts.bytes)),
        special_(std::move(texts.special)),
        pretokenizer_(std::move(pretokenizer)),
        encoder_(std::move(encoder)),
        end_tokens_(std::move(end_tokens)) {}

  std::vector<TokenId> Encode(absl::string_view text, bool add_special,
                              bool parse_special) const override {
    std::vector<SpecialTokens::Range> trusted;
    if (parse_special) trusted.push_back({0, text.size()});
    return EncodeRanges(text, trusted, add_special);
  }

  std::vector<TokenId> EncodeSpans(std::span<const TextSpan> spans,
                                   bool add_special) const override {
    std::string text;
    std::vector<SpecialTokens::Range> trusted;
    for (const TextSpan& span : spans) {
      if (span.text.empty()) continue;
      if (span.trusted) {
        // Neighbours are one range, so that a token may cross their border.
        if (trusted.empty() || trusted.back().end != text.size()) {
          trusted.push_back({text.size(), text.size()});
        }
        trusted.back().end += span.text.size();
      }
      text += span.text;
    }
    return EncodeRanges(text, trusted, add_special);
  }

  std::string TokenBytes(TokenId token, bool render_special) const override {
    if (token < 0 || static_cast<size_t>(token) >= bytes_.size()) return "";
    const TokenKind kind = vocabulary_.kinds[token];
    const bool control =
        kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    return control && !render_special ? "" : bytes_[token];
  }

  uint32_t vocabulary_size() const override {
    return static_cast<uint32_t>(bytes_.size());
  }
  TokenId bos() const override { return vocabulary_.bos; }
  const std::vector<TokenId>& end_tokens() const override {
    return end_tokens_;
  }
  bool adds_bos() const override { return vocabulary_.adds_bos; }

 private:
  std::vector<TokenId> EncodeRanges(
      absl::string_view text, const std::vector<SpecialTokens::Range>& trusted,
      bool add_special) const {
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3 + 2);
    if (add_special && vocabulary_.adds_bos) ids.push_back(vocabulary_.bos);
    std::vector<absl::string_view> pieces;
    BytePairEncoder::Scratch scratch;
    for (const auto& fragment : special_.Partition(text, trusted)) {
      if (fragment.token >= 0) {
        ids.push_back(fragment.token);
        continue;
      }
      pieces.clear();
      pretokenizer_->Split(
          text.substr(fragment.begin, fragment.end - fragment.begin), pieces);
      for (absl::string_view piece : pieces) {
        encoder_.Encode(piece, scratch, ids);
      }
    }
    if (add_special && vocabulary_.adds_eos) ids.push_back(vocabulary_.eos);
    return ids;
  }

  const Vocabulary vocabulary_;
  const std::vector<std::string> bytes_;  // by token
  const SpecialTokens special_;
  const std::unique_ptr<Pretokenizer> pretokenizer_;
  const BytePairEncoder encoder_;
  const std::vector<TokenId> end_tokens_;
};

// Lookup errors name the key; a missing one is the file's fault here.
template <typename T>
absl::StatusOr<T> Required(absl::StatusOr<T> value) {
  if (absl::IsNotFound(value.status())) {
    return absl::InvalidArgumentError(value.status().message());
  }
  return value;
}

// A token without a row would be a read beyond the tensor; a row without a
// token could be sampled and have no text. A header alone may name no tensors.
absl::Status CheckEmbedding(const gguf::GgufHeader& header, size_t tokens) {
  const gguf::GgufTensorInfo* embedding = header.FindTensor(kEmbedding);
  if (embedding == nullptr) return absl::OkStatus();
  const int64_t rows = embedding->shape.size() < 2 ? 1 : embedding->shape[1];
  if (rows == static_cast<int64_t>(tokens)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer.ggml.tokens: ", tokens, " tokens, but ",
                   kEmbedding, " has ", rows, " rows"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(
    const gguf::GgufHeader& header) {
  BATON_ASSIGN_OR_RETURN(const std::string model,
                         Required(header.String(kModel)));
  if (model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat(kModel, ": tokenizer model \"",
                                                 model, "\" is not supported"));
  }
  std::string pre = "default";
  if (header.Has(kPre)) {
    BATON_ASSIGN_OR_RETURN(pre, header.String(kPre));
  }
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Pretokenizer> pretokenizer,
                         Pretokenizer::Create(pre));
  BATON_ASSIGN_OR_RETURN(
      Vocabulary vocabulary,
      Required(LoadVocabulary(header, pretokenizer->adds_bos())));
  BATON_RETURN_IF_ERROR(CheckEmbedding(header, vocabulary.texts.size()));
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> merges,
                         Required(header.StringArray(kMerges)));
  TokenTexts texts = MakeTexts(vocabulary);
  BATON_ASSIGN_OR_RETURN(
      BytePairEncoder encoder,
      BytePairEncoder::Create(texts.mergeable, merges,
                              pretokenizer->ignores_merges()));
  return std::make_unique<GgufTokenizer>(
      std::move(vocabulary), std::move(texts), std::move(pretokenizer),
      std::move(encoder), gguf::EndTokens(header));
}

}  // namespace baton::text
