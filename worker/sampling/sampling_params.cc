#include "worker/sampling/sampling_params.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

constexpr uint32_t kMaxTopLogprobs = 20;

absl::Status Refuse(absl::string_view field, absl::string_view why) {
  return WithField(absl::InvalidArgumentError(absl::StrCat(field, " ", why)),
                   field);
}

// NaN is in no range.
absl::Status CheckRange(absl::string_view field, float value, float low,
                        float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refuse(
      field, absl::StrCat("must be in [", low, ", ", high, "], not ", value));
}

absl::Status CheckToken(absl::string_view field, TokenId token,
                        uint32_t vocabulary) {
  if (token >= 0 && static_cast<uint32_t>(token) < vocabulary) {
    return absl::OkStatus();
  }
  return Refuse(field, absl::StrCat("names token ", token,
                                    "; the vocabulary has ", vocabulary));
}

}  // namespace

absl::Status ValidateSampling(const SamplingParams& params,
                              uint32_t vocabulary) {
  if (!std::isfinite(params.temperature) || params.temperature < 0) {
    return Refuse("temperature", "must be a finite number, 0 or more");
  }
  if (params.top_k < 0) {
    return Refuse("top_k", "must be 0 (whole vocabulary) or more");
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return Refuse("top_p", "must be above 0 and at most 1");
  }
  BATON_RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  if (!std::isfinite(params.repetition_penalty) ||
      params.repetition_penalty <= 0) {
    return Refuse("repetition_penalty", "must be a finite number above 0");
  }
  BATON_RETURN_IF_ERROR(
      CheckRange("presence_penalty", params.presence_penalty, -2, 2));
  BATON_RETURN_IF_ERROR(
      CheckRange("frequency_penalty", params.frequency_penalty, -2, 2));
  for (const auto& [token, bias] : params.logit_bias) {
    BATON_RETURN_IF_ERROR(CheckToken("logit_bias", token, vocabulary));
    BATON_RETURN_IF_ERROR(CheckRange("logit_bias", bias, -100, 100));
  }
  if (params.top_logprobs > kMaxTopLogprobs) {
    return Refuse("top_logprobs", "must be at most 20");
  }
  if (params.top_logprobs > 0 && !params.logprobs) {
    return Refuse("top_logprobs", "needs logprobs");
  }
  return absl::OkStatus();
}

absl::Status ValidateStop(const StopConditions& stop, uint32_t vocabulary) {
  if (stop.max_tokens && *stop.max_tokens == 0) {
    return Refuse("max_tokens", "must be 1 or more");
  }
  if (stop.max_tokens && stop.min_tokens > *stop.max_tokens) {
    return Refuse("min_tokens", "must not be above max_tokens");
  }
  for (TokenId token : stop.stop_token_ids) {
    BATON_RETURN_IF_ERROR(CheckToken("stop_token_ids", token, vocabulary));
  }
  return absl::OkStatus();
}

}  // namespace baton::worker
