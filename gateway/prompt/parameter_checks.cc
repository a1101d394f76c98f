#include "gateway/prompt/parameter_checks.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "services/base/draft_method.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

constexpr uint32_t kMaxTopLogprobs = 20;
constexpr size_t kMaxStopTokens = 64;
constexpr size_t kMaxLogitBias = 1024;
constexpr uint32_t kMaxDrafts = 64;

absl::Status CheckRange(absl::string_view field, std::optional<float> value,
                        float min, float max, bool min_allowed = true) {
  if (!value.has_value()) return absl::OkStatus();
  const bool ok = std::isfinite(*value) && *value <= max &&
                  (min_allowed ? *value >= min : *value > min);
  if (ok) return absl::OkStatus();
  return InvalidValue(
      field, absl::StrCat("must be in ", min_allowed ? "[" : "(", min, ", ",
                          max, "]"));
}

absl::Status ContextExceeded(absl::string_view message) {
  return WithReason(absl::InvalidArgumentError(message),
                    "context_length_exceeded");
}

}  // namespace

absl::Status InvalidValue(absl::string_view field, absl::string_view problem) {
  return WithField(
      WithReason(absl::InvalidArgumentError(absl::StrCat(field, " ", problem)),
                 "invalid_value"),
      field);
}

absl::Status CheckToken(TokenId token, absl::string_view field,
                        uint32_t vocabulary_size) {
  if (token >= 0 && static_cast<uint32_t>(token) < vocabulary_size) {
    return absl::OkStatus();
  }
  return InvalidValue(
      field, absl::StrCat("has token id ", token,
                          ", outside the vocabulary of ", vocabulary_size));
}

absl::Status CheckSampling(const Sampling& sampling, uint32_t vocabulary_size,
                           const FieldNames& names) {
  BATON_RETURN_IF_ERROR(
      CheckRange("temperature", sampling.temperature, 0, 100));
  BATON_RETURN_IF_ERROR(CheckRange("top_p", sampling.top_p, 0, 1, false));
  BATON_RETURN_IF_ERROR(CheckRange("min_p", sampling.min_p, 0, 1));
  BATON_RETURN_IF_ERROR(CheckRange(names.repetition_penalty,
                                   sampling.repetition_penalty, 0, 100, false));
  BATON_RETURN_IF_ERROR(
      CheckRange("presence_penalty", sampling.presence_penalty, -2, 2));
  BATON_RETURN_IF_ERROR(
      CheckRange("frequency_penalty", sampling.frequency_penalty, -2, 2));
  if (sampling.top_k.value_or(0) < 0) {
    return InvalidValue("top_k", "must not be negative");
  }
  if (sampling.top_logprobs > kMaxTopLogprobs) {
    return InvalidValue(names.top_logprobs, "must be at most 20");
  }
  if (sampling.top_logprobs > 0 && !sampling.logprobs) {
    return InvalidValue(names.top_logprobs, "needs logprobs");
  }
  if (sampling.logit_bias.size() > kMaxLogitBias) {
    return InvalidValue("logit_bias", "has more than 1024 entries");
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    BATON_RETURN_IF_ERROR(CheckToken(token, "logit_bias", vocabulary_size));
    BATON_RETURN_IF_ERROR(CheckRange("logit_bias", bias, -100, 100));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const Limits& limits, uint32_t vocabulary_size,
                         uint32_t max_stop_strings, uint32_t max_stop_bytes,
                         const FieldNames& names) {
  if (limits.max_tokens.has_value() && *limits.max_tokens == 0) {
    return InvalidValue(names.max_tokens, "must be at least 1");
  }
  if (limits.stop.size() > max_stop_strings) {
    return InvalidValue(
        "stop", absl::StrCat("has more than ", max_stop_strings, " strings"));
  }
  for (const std::string& stop : limits.stop) {
    if (stop.empty()) return InvalidValue("stop", "has an empty string");
    if (stop.size() > max_stop_bytes) {
      return InvalidValue("stop", absl::StrCat("has a string of more than ",
                                               max_stop_bytes, " bytes"));
    }
  }
  if (limits.stop_token_ids.size() > kMaxStopTokens) {
    return InvalidValue("stop_token_ids", "has more than 64 tokens");
  }
  for (TokenId token : limits.stop_token_ids) {
    BATON_RETURN_IF_ERROR(CheckToken(token, "stop_token_ids", vocabulary_size));
  }
  return absl::OkStatus();
}

absl::Status CheckSpeculation(const Speculation& speculation) {
  if (speculation.mode.has_value()) {
    const absl::Status known = DraftMethods::Parse(*speculation.mode).status();
    if (!known.ok()) return InvalidValue("speculation.mode", known.message());
  }
  if (speculation.max.value_or(0) > kMaxDrafts) {
    return InvalidValue("speculation.max",
                        absl::StrCat("is larger than ", kMaxDrafts));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> CompletionLimit(size_t prompt_tokens,
                                         std::optional<uint32_t> asked,
                                         uint32_t context_length,
                                         const FieldNames& names) {
  if (prompt_tokens >= context_length) {
    return WithField(ContextExceeded(absl::StrCat(
                         "the prompt has ", prompt_tokens,
                         " tokens; the context holds ", context_length)),
                     names.prompt);
  }
  const uint32_t room = context_length - static_cast<uint32_t>(prompt_tokens);
  if (!asked.has_value()) return room;
  if (*asked > room) {
    return WithField(
        ContextExceeded(absl::StrCat(
            "the prompt's ", prompt_tokens, " tokens and ", names.max_tokens,
            " ", *asked, " exceed the context of ", context_length)),
        names.max_tokens);
  }
  return *asked;
}

}  // namespace baton::gateway
