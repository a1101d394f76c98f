// The model's chat template, rendered with limits on steps, depth and output.
// Immutable after Create; thread-safe.
#ifndef BATON_SERVICES_TEXT_CHAT_TEMPLATE_H_
#define BATON_SERVICES_TEXT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/text/tokenizer.h"

namespace baton::text {

struct ChatTurn {
  std::string role;
  std::string content;
  std::string name;               // optional
  std::string reasoning_content;  // optional, assistant
};

class ChatTemplate {
 public:
  struct Options {
    uint64_t max_steps = 2'000'000;
    uint32_t max_depth = 200;
    uint64_t max_output_bytes = 32 << 20;
    uint64_t max_source_bytes = 1 << 20;
  };

  // `source`: the template text, of the model file or of
  // --chat-template-file; never from a client. `bos` and `eos` are the texts
  // of those tokens. Errors: kInvalidArgument with line of the fault.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Create(
      absl::string_view source, absl::string_view bos, absl::string_view eos,
      const Options& options);
  virtual ~ChatTemplate() = default;

  // Text of `turns`, split into trusted (template) and untrusted (client)
  // spans, with the generation prompt added. `kwargs_json`: a JSON object of
  // further template variables (enable_thinking…); empty = none.
  // Errors: kInvalidArgument (kwargs, raise_exception of the template),
  // kResourceExhausted (a limit).
  virtual absl::StatusOr<std::vector<TextSpan>> Render(
      const std::vector<ChatTurn>& turns,
      absl::string_view kwargs_json) const = 0;
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_CHAT_TEMPLATE_H_
