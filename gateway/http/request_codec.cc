#include "gateway/http/request_codec.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

// Set to something other than null, false, "" or an empty array or object.
bool Asks(const Json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_string()) return !value->get_ref<const std::string&>().empty();
  if (value->is_array() || value->is_object()) return !value->empty();
  return true;
}

// Output that is constrained, or a prompt that is built, in a way that Baton
// would silently ignore.
absl::Status RefuseUnserved(const Json& body) {
  FieldReader reader(body);
  static constexpr std::array kUnserved = {
      "tools",       "functions",          "grammar",       "json_schema",
      "guided_json", "guided_regex",       "guided_choice", "guided_grammar",
      "suffix",      "structured_outputs", "echo",          "chat_template"};
  for (const char* name : kUnserved) {
    if (Asks(reader.Find(name))) {
      return InvalidField(name, "is not supported by this server");
    }
  }
  if (const Json* choice = reader.Find("tool_choice");
      choice != nullptr && *choice != "none" && *choice != "auto") {
    return InvalidField("tool_choice", "asks for tools, which are not given");
  }
  if (const Json* format = reader.Find("response_format")) {
    if (!format->is_object() || format->value("type", Json()) != "text") {
      return InvalidField("response_format",
                          "other than {\"type\":\"text\"} is not supported");
    }
  }
  for (const char* name : {"n", "best_of"}) {
    const std::optional<int64_t> count = reader.Integer(name);
    BATON_RETURN_IF_ERROR(reader.status());
    if (count.value_or(1) != 1) {
      return InvalidField(name, "must be 1: one answer a request");
    }
  }
  return absl::OkStatus();
}

void ReadLogitBias(FieldReader* reader, Sampling* sampling) {
  const Json* bias = reader->Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) {
    reader->Fail("logit_bias", "must be an object of token id to number");
    return;
  }
  FieldReader values(*bias, "logit_bias.");
  for (const auto& [key, value] : bias->items()) {
    TokenId token = 0;
    if (!absl::SimpleAtoi(key, &token) || token < 0) {
      reader->Fail("logit_bias", "has a key that is not a token id");
      return;
    }
    const std::optional<float> amount = values.Float(key.c_str());
    if (!amount.has_value()) {
      reader->Fail("logit_bias", "has a value that is not a number");
      return;
    }
    sampling->logit_bias.emplace_back(token, *amount);
  }
}

Sampling ReadSampling(FieldReader* reader, FieldNames* names) {
  Sampling sampling;
  sampling.temperature = reader->Float("temperature");
  sampling.top_p = reader->Float("top_p");
  sampling.min_p = reader->Float("min_p");
  const std::optional<int64_t> top_k =
      reader->Integer("top_k", -1, std::numeric_limits<int32_t>::max());
  // Other servers write "the whole vocabulary" as -1.
  if (top_k.has_value()) {
    sampling.top_k = *top_k == -1 ? 0 : static_cast<int32_t>(*top_k);
  }
  sampling.repetition_penalty = reader->Float("repetition_penalty");
  if (!sampling.repetition_penalty.has_value()) {
    names->repetition_penalty = "repeat_penalty";
    sampling.repetition_penalty = reader->Float(names->repetition_penalty);
  }
  sampling.presence_penalty = reader->Float("presence_penalty");
  sampling.frequency_penalty = reader->Float("frequency_penalty");
  sampling.seed = reader->Bits64("seed");
  ReadLogitBias(reader, &sampling);
  return sampling;
}

Speculation ReadSpeculation(FieldReader* reader) {
  Speculation speculation;
  const Json* object = reader->Find("speculation");
  if (object == nullptr) return speculation;
  if (!object->is_object()) {
    reader->Fail("speculation", "must be an object");
    return speculation;
  }
  FieldReader nested(*object, "speculation.");
  speculation.mode = nested.String("mode");
  speculation.max = nested.Unsigned("max");
  reader->Take(nested.status());
  return speculation;
}

GenerationParameters ReadParameters(FieldReader* reader) {
  GenerationParameters parameters;
  parameters.model = reader->String("model").value_or("");
  parameters.sampling = ReadSampling(reader, &parameters.names);
  Limits& limits = parameters.limits;
  const std::optional<uint32_t> older = reader->Unsigned("max_tokens");
  limits.max_tokens = reader->Unsigned("max_completion_tokens");
  if (limits.max_tokens.has_value()) {
    parameters.names.max_tokens = "max_completion_tokens";
  } else {
    limits.max_tokens = older;
  }
  limits.min_tokens = reader->Unsigned("min_tokens").value_or(0);
  limits.stop = reader->Strings("stop");
  limits.stop_token_ids = reader->TokenIds("stop_token_ids");
  limits.ignore_eos = reader->Bool("ignore_eos").value_or(false);
  parameters.speculation = ReadSpeculation(reader);
  parameters.cache_salt = reader->String("cache_salt").value_or("");
  return parameters;
}

absl::StatusOr<AnswerOptions> ReadAnswerOptions(FieldReader* reader) {
  AnswerOptions answer;
  answer.stream = reader->Bool("stream").value_or(false);
  answer.timings_per_token = reader->Bool("timings_per_token").value_or(false);
  answer.return_progress = reader->Bool("return_progress").value_or(false);
  if (const Json* options = reader->Find("stream_options")) {
    if (!options->is_object()) {
      return InvalidField("stream_options", "must be an object");
    }
    FieldReader nested(*options, "stream_options.");
    answer.include_usage = nested.Bool("include_usage").value_or(false);
    BATON_RETURN_IF_ERROR(nested.status());
  }
  return answer;
}

absl::StatusOr<std::string> ReadContent(const Json& message,
                                        const std::string& path,
                                        bool may_be_absent) {
  FieldReader reader(message, path);
  const Json* content = reader.Find("content");
  const std::string field = path + "content";
  if (content == nullptr) {
    if (may_be_absent) return std::string();
    return InvalidField(field, "is missing");
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    return InvalidField(field, "must be a string or an array of parts");
  }
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string part_path = absl::StrCat(field, "[", i, "].");
    if (!part.is_object()) {
      return InvalidField(absl::StrCat(field, "[", i, "]"),
                          "must be an object");
    }
    FieldReader part_reader(part, part_path);
    const std::optional<std::string> type = part_reader.String("type");
    if (type != "text") {
      return InvalidField(part_path + "type",
                          "must be \"text\": this model reads only text");
    }
    const std::optional<std::string> text = part_reader.String("text");
    if (!text.has_value()) {
      return InvalidField(part_path + "text", "must be a string");
    }
    joined += *text;
  }
  return joined;
}

absl::StatusOr<text::ChatTurn> ReadTurn(const Json& message,
                                        const std::string& path) {
  FieldReader reader(message, path);
  text::ChatTurn turn;
  turn.role = reader.String("role").value_or("");
  BATON_RETURN_IF_ERROR(reader.status());
  if (turn.role == "developer") turn.role = "system";
  if (turn.role != "system" && turn.role != "user" &&
      turn.role != "assistant" && turn.role != "tool") {
    return InvalidField(path + "role",
                        "must be system, developer, user, assistant or tool");
  }
  if (Asks(reader.Find("tool_calls"))) {
    return InvalidField(path + "tool_calls", "is not supported by this server");
  }
  BATON_ASSIGN_OR_RETURN(turn.content,
                         ReadContent(message, path, turn.role == "assistant"));
  turn.name = reader.String("name").value_or("");
  turn.reasoning_content = reader.String("reasoning_content").value_or("");
  if (turn.reasoning_content.empty()) {
    turn.reasoning_content = reader.String("reasoning").value_or("");
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return turn;
}

absl::StatusOr<std::variant<std::string, std::vector<TokenId>>> ReadPrompt(
    const Json& body) {
  using Prompt = std::variant<std::string, std::vector<TokenId>>;
  const auto found = body.find("prompt");
  if (found == body.end()) return InvalidField("prompt", "is missing");
  const Json* prompt = &*found;
  // An array of one prompt is that prompt.
  if (prompt->is_array() && prompt->size() == 1 &&
      ((*prompt)[0].is_string() || (*prompt)[0].is_array())) {
    prompt = &(*prompt)[0];
  }
  if (prompt->is_string()) return Prompt(prompt->get<std::string>());
  std::optional<std::vector<TokenId>> tokens = TokenArray(*prompt);
  if (!tokens.has_value()) {
    return InvalidField("prompt",
                        "must be one string or one array of token ids");
  }
  return Prompt(*std::move(tokens));
}

}  // namespace

absl::StatusOr<std::vector<text::ChatTurn>> ParseMessages(const Json& body) {
  const auto messages = body.find("messages");
  if (messages == body.end() || !messages->is_array() || messages->empty()) {
    return InvalidField("messages", "must be an array with a message");
  }
  std::vector<text::ChatTurn> turns;
  turns.reserve(messages->size());
  for (size_t i = 0; i < messages->size(); ++i) {
    const std::string path = absl::StrCat("messages[", i, "]");
    if (!(*messages)[i].is_object()) {
      return InvalidField(path, "must be an object");
    }
    BATON_ASSIGN_OR_RETURN(text::ChatTurn turn,
                           ReadTurn((*messages)[i], path + "."));
    turns.push_back(std::move(turn));
  }
  return turns;
}

absl::StatusOr<std::string> ParseTemplateKwargs(const Json& body) {
  FieldReader reader(body);
  const Json* kwargs = reader.Find("chat_template_kwargs");
  if (kwargs == nullptr) return std::string();
  if (!kwargs->is_object()) {
    return InvalidField("chat_template_kwargs", "must be an object");
  }
  return DumpJson(*kwargs);
}

absl::StatusOr<ChatRequest> ParseChatRequest(const Json& body) {
  BATON_RETURN_IF_ERROR(RefuseUnserved(body));
  ChatRequest request;
  BATON_ASSIGN_OR_RETURN(request.input.turns, ParseMessages(body));
  BATON_ASSIGN_OR_RETURN(request.input.template_kwargs_json,
                         ParseTemplateKwargs(body));
  FieldReader reader(body);
  request.input.parameters = ReadParameters(&reader);
  BATON_ASSIGN_OR_RETURN(request.answer, ReadAnswerOptions(&reader));
  Sampling& sampling = request.input.parameters.sampling;
  sampling.logprobs = reader.Bool("logprobs").value_or(false);
  sampling.top_logprobs = reader.Unsigned("top_logprobs").value_or(0);
  if (sampling.top_logprobs > 0 && !sampling.logprobs) {
    reader.Fail("top_logprobs", "needs logprobs to be true");
  }
  request.answer.logprobs = sampling.logprobs;
  BATON_RETURN_IF_ERROR(reader.status());
  return request;
}

absl::StatusOr<CompletionRequest> ParseCompletionRequest(const Json& body) {
  BATON_RETURN_IF_ERROR(RefuseUnserved(body));
  CompletionRequest request;
  BATON_ASSIGN_OR_RETURN(request.input.prompt, ReadPrompt(body));
  FieldReader reader(body);
  request.input.parameters = ReadParameters(&reader);
  BATON_ASSIGN_OR_RETURN(request.answer, ReadAnswerOptions(&reader));
  Sampling& sampling = request.input.parameters.sampling;
  const std::optional<uint32_t> logprobs = reader.Unsigned("logprobs");
  request.input.parameters.names.top_logprobs = "logprobs";
  sampling.logprobs = logprobs.has_value();
  sampling.top_logprobs = logprobs.value_or(0);
  request.answer.logprobs = sampling.logprobs;
  BATON_RETURN_IF_ERROR(reader.status());
  return request;
}

}  // namespace baton::gateway
