// What a chat template sees: the conversation and the client's variables as
// values of the template engine. Functions of their arguments; thread-safe.
// They throw what the engine throws (limits, out of memory): call them inside
// the guard that wraps the engine.
#ifndef BATON_SERVICES_TEXT_TEMPLATE_VALUES_H_
#define BATON_SERVICES_TEXT_TEMPLATE_VALUES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "jinja/runtime.h"
#include "services/text/chat_template.h"

namespace baton::text {

// The `messages` variable. Text of the turns is marked as input.
jinja::value MessagesValue(const std::vector<ChatTurn>& turns);

// Sets every member of the JSON object `kwargs_json` in `context`, strings and
// keys marked as input. Errors: kInvalidArgument if it is not an object, is
// nested deeper than `max_depth`, or names a variable that is not the client's.
absl::Status SetKwargs(absl::string_view kwargs_json, int max_depth,
                       jinja::context& context);

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_TEMPLATE_VALUES_H_
