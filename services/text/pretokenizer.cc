#include "services/text/pretokenizer.h"

#include <algorithm>
#include <string>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "services/text/utf8.h"

namespace baton::text {
namespace {

// Unicode's White_Space, the \s of the tokenizers' own regular expressions.
// PCRE2's \s has U+180E as well.
#define BATON_SPACE                                \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}"    \
  "\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"
#define BATON_SPACES "[" BATON_SPACE "]"

#define BATON_CONTRACTIONS \
  "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
// Runs of white space: up to the last line break; else all but the last
// character, which belongs to the word that follows; else the whole run.
#define BATON_BREAKS                                           \
  BATON_SPACES "*[\\r\\n]+|" BATON_SPACES "+(?![^" BATON_SPACE \
               "])|" BATON_SPACES "+"

constexpr char kGpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d"
    "| ?\\p{L}+| ?\\p{N}+| ?[^" BATON_SPACE
    "\\p{L}\\p{N}]+"
    "|" BATON_SPACES "+(?![^" BATON_SPACE "])|" BATON_SPACES "+";

constexpr char kLlama3[] = BATON_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
    "| ?[^" BATON_SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" BATON_BREAKS;

constexpr char kQwen2[] = BATON_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
    "| ?[^" BATON_SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" BATON_BREAKS;

// Marks belong to words.
constexpr char kQwen35[] = BATON_CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
    "| ?[^" BATON_SPACE "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" BATON_BREAKS;

struct Family {
  absl::string_view name;
  // Each splits the pieces of the one before; nullptr ends the list.
  const char* patterns[4];
  bool ignores_merges = false;
  bool adds_bos = false;
};

constexpr Family kFamilies[] = {
    {"gpt-2", {kGpt2}},
    {"smollm", {"\\p{N}", kGpt2}},
    {"llama-bpe", {kLlama3}, true, true},
    {"llama3", {kLlama3}, true, true},
    {"llama-v3", {kLlama3}, true, true},
    {"qwen2", {kQwen2}},
    {"deepseek-r1-qwen", {kQwen2}},
    {"qwen35", {kQwen35}},
    {"default", {"[\\p{P}$+<=>^~|]+", kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* m) const { pcre2_match_data_free(m); }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;

absl::StatusOr<Code> Compile(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern),
                          PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error,
                          &offset, nullptr));
  if (code == nullptr) {
    return absl::InternalError(absl::StrCat("pre-tokenizer pattern: error ",
                                            error, " at offset ", offset));
  }
  // Without a JIT the interpreter matches the same, only slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

class RegexPretokenizer : public Pretokenizer {
 public:
  RegexPretokenizer(const Family& family, std::vector<Code> stages)
      : family_(family), stages_(std::move(stages)) {}

  void Split(absl::string_view text,
             std::vector<absl::string_view>& pieces) const override {
    while (!text.empty()) {
      const size_t valid = ValidUtf8Prefix(text);
      if (valid > 0) SplitValid(text.substr(0, valid), pieces);
      text.remove_prefix(valid);
      if (text.empty()) return;
      const size_t invalid = ReadUtf8(text).length;
      pieces.push_back(text.substr(0, invalid));
      text.remove_prefix(invalid);
    }
  }

  bool ignores_merges() const override { return family_.ignores_merges; }
  bool adds_bos() const override { return family_.adds_bos; }

 private:
  void SplitValid(absl::string_view text,
                  std::vector<absl::string_view>& pieces) const {
    std::vector<absl::string_view> current = {text};
    std::vector<absl::string_view> next;
    for (const Code& stage : stages_) {
      next.clear();
      const std::unique_ptr<pcre2_match_data, MatchDeleter> match(
          pcre2_match_data_create_from_pattern(stage.get(), nullptr));
      for (absl::string_view piece : current) {
        SplitPiece(*stage, *match, piece, next);
      }
      current.swap(next);
    }
    pieces.insert(pieces.end(), current.begin(), current.end());
  }

  // Matches and the text between them become pieces. A piece is matched as if
  // it were the whole text: look-ahead stops at its end.
  static void SplitPiece(const pcre2_code& code, pcre2_match_data& match,
                         absl::string_view piece,
                         std::vector<absl::string_view>& out) {
    size_t start = 0;
    while (start < piece.size()) {
      const int count =
          pcre2_match(&code, reinterpret_cast<PCRE2_SPTR>(piece.data()),
                      piece.size(), start, PCRE2_NO_UTF_CHECK, &match, nullptr);
      if (count < 0) break;
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(&match);
      const size_t begin = bounds[0];
      const size_t end = bounds[1];
      if (end <= start) break;  // no pattern matches the empty text
      if (begin > start) out.push_back(piece.substr(start, begin - start));
      out.push_back(piece.substr(begin, end - begin));
      start = end;
    }
    if (start < piece.size()) out.push_back(piece.substr(start));
  }

  const Family& family_;
  const std::vector<Code> stages_;
};

#undef BATON_SPACE
#undef BATON_SPACES
#undef BATON_CONTRACTIONS
#undef BATON_BREAKS

}  // namespace

absl::StatusOr<std::unique_ptr<Pretokenizer>> Pretokenizer::Create(
    absl::string_view name) {
  const auto* family =
      std::find_if(std::begin(kFamilies), std::end(kFamilies),
                   [name](const Family& f) { return f.name == name; });
  if (family == std::end(kFamilies)) {
    return absl::UnimplementedError(absl::StrCat(
        "tokenizer.ggml.pre: pre-tokenizer \"", name, "\" is not supported"));
  }
  std::vector<Code> stages;
  for (const char* pattern : family->patterns) {
    if (pattern == nullptr) break;
    absl::StatusOr<Code> code = Compile(pattern);
    if (!code.ok()) return code.status();
    stages.push_back(*std::move(code));
  }
  return std::make_unique<RegexPretokenizer>(*family, std::move(stages));
}

}  // namespace baton::text
