#include "services/cli/client/answer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::cli {

double Answer::PromptRate() const {
  return prompt_ms > 0 ? prompt_n / prompt_ms * 1000 : 0;
}

double Answer::GenerationRate() const {
  // predicted_ms spans from the first token to the last: one token fewer.
  return predicted_ms > 0 && predicted_n > 1
             ? (predicted_n - 1) / predicted_ms * 1000
             : 0;
}

std::string StatusLine(const Answer& answer) {
  std::string line = absl::StrFormat(
      "prompt %d tokens %.1f t/s (cached %d) | generation %d tokens %.1f t/s | "
      "first token %.0f ms",
      answer.prompt_tokens, answer.PromptRate(), answer.cached_tokens,
      answer.completion_tokens, answer.GenerationRate(), answer.ttft_ms);
  if (!answer.decode_worker.empty()) {
    absl::StrAppend(&line, " | ", answer.prefill_worker,
                    answer.prefill_worker.empty() ? "" : " -> ",
                    answer.decode_worker);
  }
  if (answer.resumes > 0) absl::StrAppend(&line, " | resumed ", answer.resumes);
  return line;
}

}  // namespace baton::cli
