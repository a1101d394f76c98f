// A question to a gateway and its answer, whichever API carries them. Plain
// values and one interface; implementations: grpc_chat_client,
// http_chat_client.
#ifndef BATON_SERVICES_CLI_CLIENT_ANSWER_H_
#define BATON_SERVICES_CLI_CLIENT_ANSWER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::cli {

struct Turn {
  std::string role;  // system, user, assistant
  std::string content;
};

struct Question {
  std::string model;  // empty = the only one
  std::vector<Turn> turns;
  std::optional<uint32_t> max_tokens;
  std::optional<double> temperature;
  std::optional<uint64_t> seed;
  bool ignore_eos = false;
};

// What the server said about one answer. Times in milliseconds. Over HTTP
// the token ids are not known.
struct Answer {
  std::string text;
  std::vector<int32_t> token_ids;
  std::string finish_reason;
  uint64_t seed = 0;
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;
  uint32_t completion_tokens = 0;
  uint32_t prompt_n = 0;  // prompt tokens computed
  double prompt_ms = 0;
  uint32_t predicted_n = 0;
  double predicted_ms = 0;  // first token to last
  double queue_ms = 0;
  double ttft_ms = 0;
  double handoff_ms = 0;
  uint64_t handoff_bytes = 0;
  std::string prefill_worker;  // empty = the decode worker read the prompt
  std::string decode_worker;
  uint32_t local_cache_tokens = 0;
  uint32_t kv_store_tokens = 0;
  uint32_t resumes = 0;

  // Tokens a second; 0 if there is no time to divide by.
  double PromptRate() const;
  double GenerationRate() const;
};

// Called on the thread of Ask. Either may be empty.
struct AnswerEvents {
  std::function<void(uint32_t processed, uint32_t total)> on_progress;
  // `text` may be empty, and `tokens` zero when held-back text comes out.
  std::function<void(absl::string_view text, uint32_t tokens)> on_text;
};

class ChatSource {
 public:
  virtual ~ChatSource() = default;
  // Waits for the end of the answer. One call at a time. Errors: the server's,
  // or kUnavailable (NoGateway if nothing listens), or kCancelled after Cancel.
  virtual absl::StatusOr<Answer> Ask(const Question& question,
                                     const AnswerEvents& events) = 0;
  // Ends the running Ask, or else the next one: a person's ctrl-C between two
  // questions is not lost. From any thread.
  virtual void Cancel() = 0;
};

// "prompt 35 tokens 412.0 t/s (cached 64) · generation …".
std::string StatusLine(const Answer& answer);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLIENT_ANSWER_H_
