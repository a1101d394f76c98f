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

// The template for models whose file names none (tokenizer.chat_template): the
// caller decides whether ChatML is a fair guess for them.
inline constexpr char kChatMlTemplate[] =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// The error field (services/base/error_details.h) of Render: which of its
// arguments was at fault.
inline constexpr char kTemplateMessagesField[] = "messages";
inline constexpr char kTemplateKwargsField[] = "chat_template_kwargs";

struct ChatTurn {
  std::string role;
  std::string content;
  std::string name;               // optional
  std::string reasoning_content;  // optional, assistant
};

class ChatTemplate {
 public:
  // All limits are per Create or per Render. Memory stays below about 32 times
  // max_output_bytes plus 150 MB, whatever the template does.
  struct Options {
    // Statements, expressions, iterations and visited values.
    uint64_t max_steps = 2'000'000;
    // Nesting of the source, of calls and of values.
    uint32_t max_depth = 200;
    uint64_t max_output_bytes = 32 << 20;
    uint64_t max_source_bytes = 1 << 20;
  };

  // `source`: the template text, of the model file or of
  // --chat-template-file; never from a client. `bos` and `eos` are the texts
  // of those tokens. Errors: kInvalidArgument with line of the fault;
  // kResourceExhausted if the source is longer than max_source_bytes or nested
  // deeper than max_depth.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Create(
      absl::string_view source, absl::string_view bos, absl::string_view eos,
      const Options& options);
  virtual ~ChatTemplate() = default;

  // Text of `turns`, split into trusted (template) and untrusted (client)
  // spans, with the generation prompt added; neighbours differ in trust.
  // Every byte that comes from a turn or from `kwargs_json` is untrusted,
  // also after the template cut, joined or replaced in it; only the usual
  // roles (system, user, assistant, tool…) count as the template's words, as
  // some templates make a special token of them ('<|' + role + '|>').
  // `kwargs_json`: a JSON object of further template variables
  // (enable_thinking…), not messages, bos_token or eos_token; empty = none.
  // Errors: kInvalidArgument (kwargs, raise_exception of the template with its
  // message, a fault at run time), kResourceExhausted (a limit); each with one
  // of the fields above.
  virtual absl::StatusOr<std::vector<TextSpan>> Render(
      const std::vector<ChatTurn>& turns,
      absl::string_view kwargs_json) const = 0;
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_CHAT_TEMPLATE_H_
