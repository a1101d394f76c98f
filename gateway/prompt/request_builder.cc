#include "gateway/prompt/request_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gateway/prompt/parameter_checks.h"
#include "services/base/error_details.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

constexpr size_t kMaxSaltBytes = 256;
constexpr size_t kMaxRequestIdBytes = 128;

absl::Status CheckIds(const GenerationParameters& parameters) {
  if (parameters.cache_salt.size() > kMaxSaltBytes) {
    return InvalidValue("cache_salt", "is longer than 256 bytes");
  }
  const std::string& id = parameters.request_id;
  const bool printable = std::all_of(
      id.begin(), id.end(), [](unsigned char c) { return c > 32 && c < 127; });
  if (id.size() > kMaxRequestIdBytes || !printable) {
    return InvalidValue("x-request-id",
                        "must be at most 128 printable ASCII characters");
  }
  return absl::OkStatus();
}

// Templates that write BOS themselves must not get a second one.
bool BeginsWithBos(const std::vector<text::TextSpan>& spans,
                   const text::Tokenizer& tokenizer) {
  if (tokenizer.bos() < 0) return false;
  const std::string bos = tokenizer.TokenBytes(tokenizer.bos(), true);
  for (const text::TextSpan& span : spans) {
    if (span.text.empty()) continue;
    return span.trusted && !bos.empty() && absl::StartsWith(span.text, bos);
  }
  return false;
}

Sampling WithDefaults(Sampling sampling) {
  if (!sampling.temperature) sampling.temperature = 1.0f;
  if (!sampling.top_k) sampling.top_k = 0;
  if (!sampling.top_p) sampling.top_p = 1.0f;
  if (!sampling.min_p) sampling.min_p = 0.0f;
  // Minted before the first attempt, so that every attempt draws alike.
  if (!sampling.seed) sampling.seed = RandomIdentity();
  return sampling;
}

}  // namespace

RequestBuilder::RequestBuilder(const Options& options,
                               const ModelSource* models, const Clock* clock)
    : options_(options), models_(models), clock_(clock) {}

absl::StatusOr<GenerationSpec> RequestBuilder::BuildChat(
    const ChatInput& input) const {
  const absl::Duration built_at = clock_->Monotonic();
  BATON_ASSIGN_OR_RETURN(auto model,
                         ResolveModel(*models_, input.parameters.model));
  BATON_ASSIGN_OR_RETURN(
      RenderedChat chat,
      RenderChat(*model, input.turns, input.template_kwargs_json,
                 input.parameters.names));
  GenerationParameters parameters = input.parameters;
  parameters.names.prompt = text::kTemplateMessagesField;
  return Build(*model, std::move(chat.tokens), parameters, built_at,
               "chatcmpl-", "chat");
}

absl::StatusOr<GenerationSpec> RequestBuilder::BuildCompletion(
    const CompletionInput& input) const {
  const absl::Duration built_at = clock_->Monotonic();
  BATON_ASSIGN_OR_RETURN(auto model,
                         ResolveModel(*models_, input.parameters.model));
  std::vector<TokenId> prompt;
  if (const auto* text = std::get_if<std::string>(&input.prompt)) {
    prompt = model->tokenizer->Encode(*text, true, true);
  } else {
    prompt = std::get<std::vector<TokenId>>(input.prompt);
    for (TokenId token : prompt) {
      BATON_RETURN_IF_ERROR(
          CheckToken(token, "prompt", model->tokenizer->vocabulary_size()));
    }
  }
  return Build(*model, std::move(prompt), input.parameters, built_at, "cmpl-",
               "completions");
}

absl::StatusOr<GenerationSpec> RequestBuilder::Build(
    const ServedModel& model, std::vector<TokenId> prompt,
    const GenerationParameters& parameters, absl::Duration built_at,
    const char* id_prefix, const char* api) const {
  const uint32_t vocabulary = model.tokenizer->vocabulary_size();
  BATON_RETURN_IF_ERROR(CheckIds(parameters));
  const FieldNames& names = parameters.names;
  BATON_RETURN_IF_ERROR(CheckSampling(parameters.sampling, vocabulary, names));
  BATON_RETURN_IF_ERROR(CheckLimits(parameters.limits, vocabulary,
                                    options_.max_stop_strings,
                                    options_.max_stop_bytes, names));
  BATON_RETURN_IF_ERROR(CheckSpeculation(parameters.speculation));
  if (prompt.empty()) return InvalidValue(names.prompt, "has no tokens");
  if (parameters.timeout <= absl::ZeroDuration()) {
    return WithReason(absl::DeadlineExceededError("the deadline has passed"),
                      "deadline");
  }
  GenerationSpec spec;
  spec.limits = parameters.limits;
  BATON_ASSIGN_OR_RETURN(
      spec.limits.max_tokens,
      CompletionLimit(prompt.size(), parameters.limits.max_tokens,
                      model.context_length, names));
  if (spec.limits.min_tokens > *spec.limits.max_tokens) {
    return InvalidValue("min_tokens",
                        absl::StrCat("is larger than ", names.max_tokens));
  }
  spec.request_id =
      RequestId(parameters.request_id.empty() ? RandomName(id_prefix)
                                              : parameters.request_id);
  spec.api = api;
  spec.prompt = std::move(prompt);
  spec.sampling = WithDefaults(parameters.sampling);
  spec.speculation = parameters.speculation;
  spec.cache_salt = parameters.cache_salt;
  spec.arrival = parameters.arrival.value_or(built_at);
  spec.deadline =
      spec.arrival + std::min(parameters.timeout, options_.default_timeout);
  return spec;
}

absl::Status NoModelError(const ModelSource& models) {
  const absl::Status problem = models.Problem();
  if (!problem.ok()) {
    return WithRetryAfter(WithReason(absl::UnavailableError(absl::StrCat(
                                         "the workers' model cannot be used: ",
                                         problem.message())),
                                     "model_unusable"),
                          absl::Seconds(30));
  }
  return WithRetryAfter(
      WithReason(absl::UnavailableError("no model is known yet"),
                 "model_loading"),
      absl::Seconds(2));
}

absl::StatusOr<std::shared_ptr<const ServedModel>> ResolveModel(
    const ModelSource& models, const std::string& name) {
  auto model = models.Current();
  if (model == nullptr) return NoModelError(models);
  const bool known = name.empty() || name == model->name ||
                     std::find(model->aliases.begin(), model->aliases.end(),
                               name) != model->aliases.end();
  if (!known) {
    return WithField(
        WithReason(absl::NotFoundError(absl::StrCat(
                       "the model '", name.substr(0, 128), "' does not exist")),
                   "model_not_found"),
        "model");
  }
  return model;
}

absl::StatusOr<RenderedChat> RenderChat(
    const ServedModel& model, const std::vector<text::ChatTurn>& turns,
    const std::string& kwargs_json, const FieldNames& names) {
  if (turns.empty()) return InvalidValue("messages", "must not be empty");
  if (model.chat_template == nullptr) {
    return InvalidValue("messages",
                        "cannot be used: the model has no usable chat "
                        "template; use plain completion");
  }
  auto spans = model.chat_template->Render(turns, kwargs_json);
  if (!spans.ok()) {
    if (!ErrorReason(spans.status()).empty()) return spans.status();
    // A template's limits are the client's fault as well: its messages hit
    // them.
    return WithField(
        WithReason(absl::InvalidArgumentError(spans.status().message()),
                   "invalid_value"),
        ErrorField(spans.status()) == text::kTemplateKwargsField
            ? names.template_kwargs
            : text::kTemplateMessagesField);
  }
  RenderedChat chat;
  chat.spans = *std::move(spans);
  chat.tokens = model.tokenizer->EncodeSpans(
      chat.spans, !BeginsWithBos(chat.spans, *model.tokenizer));
  return chat;
}

}  // namespace baton::gateway
