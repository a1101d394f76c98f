// Ranges of what a client may ask. Pure. All errors are kInvalidArgument with
// the field at fault and reason "invalid_value" or "context_length_exceeded".
#ifndef BATON_GATEWAY_PROMPT_PARAMETER_CHECKS_H_
#define BATON_GATEWAY_PROMPT_PARAMETER_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gateway/flow/generation.h"

namespace baton::gateway {

// What the client calls the fields that have more than one name: by front, by
// endpoint, or because clients of other servers use another. String literals.
struct FieldNames {
  const char* prompt = "prompt";
  const char* max_tokens = "max_tokens";
  const char* repetition_penalty = "repetition_penalty";
  const char* top_logprobs = "top_logprobs";
  const char* template_kwargs = "chat_template_kwargs";
};

// "<field> <problem>".
absl::Status InvalidValue(absl::string_view field, absl::string_view problem);

absl::Status CheckToken(TokenId token, absl::string_view field,
                        uint32_t vocabulary_size);
// NaN and infinity are out of every range.
absl::Status CheckSampling(const Sampling& sampling, uint32_t vocabulary_size,
                           const FieldNames& names);
absl::Status CheckLimits(const Limits& limits, uint32_t vocabulary_size,
                         uint32_t max_stop_strings, uint32_t max_stop_bytes,
                         const FieldNames& names);

absl::Status CheckSpeculation(const Speculation& speculation);

// How many tokens may be generated: what the client asked, or the rest of the
// context.
absl::StatusOr<uint32_t> CompletionLimit(size_t prompt_tokens,
                                         std::optional<uint32_t> asked,
                                         uint32_t context_length,
                                         const FieldNames& names);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_PROMPT_PARAMETER_CHECKS_H_
