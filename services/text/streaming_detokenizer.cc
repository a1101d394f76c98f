#include "services/text/tokenizer.h"
#include "services/text/utf8.h"

namespace baton::text {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// Text of `bytes` up to an incomplete sequence at the end, which stays.
std::string TakeText(std::string& bytes) {
  std::string text;
  absl::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Step step = ReadUtf8(rest);
    if (step.kind == Utf8Kind::kIncomplete) break;
    if (step.kind == Utf8Kind::kValid) {
      text.append(rest.data(), step.length);
    } else {
      text += kReplacement;
    }
    rest.remove_prefix(step.length);
  }
  bytes = std::string(rest);
  return text;
}

}  // namespace

std::string StreamingDetokenizer::Append(TokenId token) {
  pending_ += tokenizer_->TokenBytes(token, /*render_special=*/false);
  return TakeText(pending_);
}

std::string StreamingDetokenizer::Flush() {
  // At most three bytes, all of one sequence.
  std::string text = pending_.empty() ? "" : kReplacement;
  pending_.clear();
  return text;
}

}  // namespace baton::text
