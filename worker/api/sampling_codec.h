// Sampling parameters, stop conditions and tokens, to and from the wire, with
// every range checked. Edge code.
#ifndef BATON_WORKER_API_SAMPLING_CODEC_H_
#define BATON_WORKER_API_SAMPLING_CODEC_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/types.pb.h"
#include "google/protobuf/repeated_field.h"
#include "services/base/ids.h"
#include "worker/engine/engine.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/sampling/sampling_params.h"

namespace baton::worker {

// What is not set takes the default of SamplingParams; a seed that is not set
// is zero, so that both workers of a handoff draw the same numbers.
// InvalidArgument names the field.
absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& message,
                                              uint32_t vocabulary);

// `prompt_tokens` and `context_length` bound max_tokens: an answer ends where
// the context is full. InvalidArgument names the field.
absl::StatusOr<StopConditions> DecodeStop(const v1::StopConditions& message,
                                          uint32_t vocabulary,
                                          uint32_t prompt_tokens,
                                          uint32_t context_length);

// InvalidArgument names `field` and the first id out of range.
absl::StatusOr<std::vector<TokenId>> DecodeTokens(
    const google::protobuf::RepeatedField<int32_t>& ids, uint32_t vocabulary,
    absl::string_view field);

// A prompt: as above, not empty, and shorter than the context (reason
// context_length_exceeded).
absl::StatusOr<std::vector<TokenId>> DecodePrompt(
    const google::protobuf::RepeatedField<int32_t>& ids, uint32_t vocabulary,
    uint32_t context_length);

// The tokens of an answer that another worker has begun: as above, and no more
// than `max_tokens`, which bounds the context too.
absl::StatusOr<std::vector<TokenId>> DecodeCommitted(
    const google::protobuf::RepeatedField<int32_t>& ids, uint32_t vocabulary,
    uint32_t max_tokens);

void EncodeToken(const CommittedToken& token, v1::CommittedToken* message);
void EncodeSources(const PromptSources& sources, v1::PromptSources* message);
v1::FinishReason EncodeFinishReason(FinishReason reason);

}  // namespace baton::worker

#endif  // BATON_WORKER_API_SAMPLING_CODEC_H_
