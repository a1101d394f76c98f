#include "gateway/flow/emission.h"

#include <algorithm>
#include <utility>

namespace baton::gateway {

Emission::Emission(std::shared_ptr<const text::Tokenizer> tokenizer,
                   const Limits& limits)
    : tokenizer_(std::move(tokenizer)),
      max_tokens_(limits.max_tokens.value_or(0)),
      ignore_eos_(limits.ignore_eos),
      stop_tokens_(limits.stop_token_ids.begin(), limits.stop_token_ids.end()),
      detokenizer_(tokenizer_.get()),
      stops_(limits.stop) {}

bool Emission::IsEnd(TokenId token) const {
  if (stop_tokens_.count(token) > 0) return true;
  const std::vector<TokenId>& ends = tokenizer_->end_tokens();
  return !ignore_eos_ &&
         std::find(ends.begin(), ends.end(), token) != ends.end();
}

Emission::Result Emission::Commit(TokenId token) {
  committed_.push_back(token);
  const bool is_end = IsEnd(token);
  Result result;
  if (!is_end) {
    text::StopMatcher::Result matched =
        stops_.Append(detokenizer_.Append(token));
    result.text = std::move(matched.text);
    if (matched.stopped) {
      finished_ = true;
      result.finish = FinishReason::kStop;
      result.by_stop_string = true;
      return result;
    }
  }
  if (is_end) {
    result.finish = FinishReason::kStop;
  } else if (committed_.size() >= max_tokens_) {
    result.finish = FinishReason::kLength;
  }
  if (result.finish.has_value()) result.text += Flush();
  return result;
}

std::string Emission::Flush() {
  if (finished_) return "";
  finished_ = true;
  text::StopMatcher::Result matched = stops_.Append(detokenizer_.Flush());
  if (matched.stopped) return matched.text;
  return matched.text + stops_.Flush();
}

}  // namespace baton::gateway
