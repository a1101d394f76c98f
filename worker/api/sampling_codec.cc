#include "worker/api/sampling_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"

namespace baton::worker {

absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& message,
                                              uint32_t vocabulary) {
  SamplingParams params;
  if (message.has_temperature()) params.temperature = message.temperature();
  if (message.has_top_k()) params.top_k = message.top_k();
  if (message.has_top_p()) params.top_p = message.top_p();
  if (message.has_min_p()) params.min_p = message.min_p();
  if (message.has_repetition_penalty()) {
    params.repetition_penalty = message.repetition_penalty();
  }
  if (message.has_presence_penalty()) {
    params.presence_penalty = message.presence_penalty();
  }
  if (message.has_frequency_penalty()) {
    params.frequency_penalty = message.frequency_penalty();
  }
  for (const v1::LogitBias& bias : message.logit_bias()) {
    params.logit_bias.emplace_back(bias.token_id(), bias.bias());
  }
  params.seed = message.seed();
  params.logprobs = message.logprobs();
  params.top_logprobs = message.top_logprobs();
  BATON_RETURN_IF_ERROR(ValidateSampling(params, vocabulary));
  return params;
}

absl::StatusOr<StopConditions> DecodeStop(const v1::StopConditions& message,
                                          uint32_t vocabulary,
                                          uint32_t prompt_tokens,
                                          uint32_t context_length) {
  StopConditions stop;
  if (message.has_max_tokens()) stop.max_tokens = message.max_tokens();
  stop.stop_token_ids.assign(message.stop_token_ids().begin(),
                             message.stop_token_ids().end());
  stop.ignore_eos = message.ignore_eos();
  stop.min_tokens = message.min_tokens();
  BATON_RETURN_IF_ERROR(ValidateStop(stop, vocabulary));
  const uint32_t room = context_length - prompt_tokens;
  stop.max_tokens = std::min(stop.max_tokens.value_or(room), room);
  stop.min_tokens = std::min(stop.min_tokens, *stop.max_tokens);
  return stop;
}

absl::StatusOr<std::vector<TokenId>> DecodeTokens(
    const google::protobuf::RepeatedField<int32_t>& ids, uint32_t vocabulary,
    absl::string_view field) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= vocabulary) {
      return WithField(absl::InvalidArgumentError(absl::StrCat(
                           field, "[", i, "] is ", ids[i],
                           "; the vocabulary has ", vocabulary, " tokens")),
                       field);
    }
  }
  return std::vector<TokenId>(ids.begin(), ids.end());
}

absl::StatusOr<std::vector<TokenId>> DecodePrompt(
    const google::protobuf::RepeatedField<int32_t>& ids, uint32_t vocabulary,
    uint32_t context_length) {
  if (ids.empty()) {
    return WithField(absl::InvalidArgumentError("the prompt is empty"),
                     "token_ids");
  }
  if (static_cast<uint32_t>(ids.size()) >= context_length) {
    return WithReason(WithField(absl::InvalidArgumentError(absl::StrCat(
                                    "the prompt has ", ids.size(),
                                    " tokens; the context holds ",
                                    context_length, " with the answer")),
                                "token_ids"),
                      "context_length_exceeded");
  }
  return DecodeTokens(ids, vocabulary, "token_ids");
}

absl::StatusOr<std::vector<TokenId>> DecodeCommitted(
    const google::protobuf::RepeatedField<int32_t>& ids, uint32_t vocabulary,
    uint32_t max_tokens) {
  constexpr char kField[] = "committed_token_ids";
  if (static_cast<uint32_t>(ids.size()) > max_tokens) {
    return WithField(absl::InvalidArgumentError(absl::StrCat(
                         kField, " has ", ids.size(),
                         " tokens; the answer may have ", max_tokens)),
                     kField);
  }
  return DecodeTokens(ids, vocabulary, kField);
}

void EncodeToken(const CommittedToken& token, v1::CommittedToken* message) {
  message->set_token_id(token.sampled.token);
  message->set_position(token.position);
  if (token.sampled.logprob.has_value()) {
    message->set_logprob(*token.sampled.logprob);
  }
  for (const TokenLogprob& top : token.sampled.top_logprobs) {
    v1::TokenLogprob* out = message->add_top_logprobs();
    out->set_token_id(top.token);
    out->set_logprob(top.logprob);
  }
}

void EncodeSources(const PromptSources& sources, v1::PromptSources* message) {
  message->set_computed_tokens(sources.computed);
  message->set_local_cache_tokens(sources.local_cache);
  message->set_kv_store_tokens(sources.kv_store);
}

v1::FinishReason EncodeFinishReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kAborted:
      return v1::FINISH_REASON_ABORTED;
    case FinishReason::kNone:
      break;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

}  // namespace baton::worker
