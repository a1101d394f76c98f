// From the JSON of an OpenAI request to what RequestBuilder takes. Fields
// that Baton does not know are ignored, as clients expect; fields that it
// knows and cannot honour are refused, never dropped. Ranges are checked by
// RequestBuilder, for both fronts; types are checked here.
#ifndef BATON_GATEWAY_HTTP_REQUEST_CODEC_H_
#define BATON_GATEWAY_HTTP_REQUEST_CODEC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "gateway/http/json_reader.h"
#include "gateway/prompt/request_builder.h"
#include "services/text/chat_template.h"

namespace baton::gateway {

// How the answer is to be sent.
struct AnswerOptions {
  bool stream = false;
  bool include_usage = false;
  bool timings_per_token = false;
  bool return_progress = false;
  bool logprobs = false;
};

struct ChatRequest {
  ChatInput input;
  AnswerOptions answer;
};

struct CompletionRequest {
  CompletionInput input;
  AnswerOptions answer;
};

// Errors: kInvalidArgument "invalid_value" with the field: a wrong type, a
// missing field, or a feature that is not served (tools, response_format
// other than text, grammar, a client's chat_template, images, n > 1).
absl::StatusOr<ChatRequest> ParseChatRequest(const Json& body);
absl::StatusOr<CompletionRequest> ParseCompletionRequest(const Json& body);

// The "messages" field alone. Text parts are joined; "developer" is the newer
// name of "system", which templates know.
absl::StatusOr<std::vector<text::ChatTurn>> ParseMessages(const Json& body);
// The "chat_template_kwargs" field as JSON text; empty if unset.
absl::StatusOr<std::string> ParseTemplateKwargs(const Json& body);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_REQUEST_CODEC_H_
