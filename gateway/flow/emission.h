// The one place where a token becomes part of an answer: counts it, turns it
// into text, and sees whether the answer ends with it. The same for a token of
// a prefill worker, of a decode worker, and after a move between workers.
//
// The token that ends an answer (end of sequence, stop token) is counted as a
// completion token and gives no text. A stop string is cut from the text; the
// token that completes it is counted, tokens after it are not.
//
// Thread-compatible.
#ifndef BATON_GATEWAY_FLOW_EMISSION_H_
#define BATON_GATEWAY_FLOW_EMISSION_H_

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gateway/flow/generation.h"
#include "services/text/stop_matcher.h"
#include "services/text/tokenizer.h"

namespace baton::gateway {

class Emission {
 public:
  // `limits.max_tokens` is set.
  Emission(std::shared_ptr<const text::Tokenizer> tokenizer,
           const Limits& limits);

  struct Result {
    std::string text;                    // safe to send
    std::optional<FinishReason> finish;  // set: the answer ends here
    bool by_stop_string = false;         // the worker does not know of it
  };
  // Never called again after a result with `finish`.
  Result Commit(TokenId token);
  // Text that is still held back, when a worker ended the answer by itself.
  std::string Flush();

  // All tokens of the answer so far, in order.
  const std::vector<TokenId>& committed() const { return committed_; }
  bool finished() const { return finished_; }

 private:
  bool IsEnd(TokenId token) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const uint32_t max_tokens_;
  const bool ignore_eos_;
  const std::set<TokenId> stop_tokens_;
  text::StreamingDetokenizer detokenizer_;
  text::StopMatcher stops_;
  std::vector<TokenId> committed_;
  bool finished_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_EMISSION_H_
