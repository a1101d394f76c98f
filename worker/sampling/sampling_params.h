// Parameters of sampling and stopping, as core code sees them. The codec
// (worker/engine edges) makes them from the proto and checks every range.
#ifndef BATON_WORKER_SAMPLING_SAMPLING_PARAMS_H_
#define BATON_WORKER_SAMPLING_SAMPLING_PARAMS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"

namespace baton::worker {

// The chain, in the order in which it is applied (sampling_chain.h):
//   1. logit bias (added); tokens not allowed yet (min_tokens) become -inf
//   2. repetition penalty (divides positive, multiplies negative logits), then
//      presence and frequency penalties (subtracted), over prompt + output for
//      repetition, output only for presence and frequency
//   3. temperature 0: the largest logit, lowest id on ties; done
//   4. top-k, then softmax; top-p; min-p (each keeps at least one token)
//   5. temperature, softmax, draw by inverse CDF in descending order of
//      probability (ties: ascending id), in double
// Reported logprobs are log-softmax after step 2, at temperature 1.
struct SamplingParams {
  float temperature = 1.0f;                           // >= 0; 0 = greedy
  int32_t top_k = 0;                                  // 0 = whole vocabulary
  float top_p = 1.0f;                                 // (0, 1]
  float min_p = 0.0f;                                 // [0, 1]
  float repetition_penalty = 1.0f;                    // > 0
  float presence_penalty = 0.0f;                      // [-2, 2]
  float frequency_penalty = 0.0f;                     // [-2, 2]
  std::vector<std::pair<TokenId, float>> logit_bias;  // [-100, 100]
  uint64_t seed = 0;
  bool logprobs = false;
  uint32_t top_logprobs = 0;  // 0..20
};

struct StopConditions {
  // New tokens, from the end of the prompt; nullopt = up to the context.
  std::optional<uint32_t> max_tokens;
  std::vector<TokenId> stop_token_ids;  // beside the model's own eos ids
  bool ignore_eos = false;
  uint32_t min_tokens = 0;  // eos and stop tokens are masked until then
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

// What the chain gives for one position.
struct SampledToken {
  TokenId token = 0;
  std::optional<float> logprob;            // set if params.logprobs
  std::vector<TokenLogprob> top_logprobs;  // descending, ties by lowest id
};

// Every range above, and finite numbers only; token ids below `vocabulary`.
// kInvalidArgument names the value and carries the field (error_details.h) by
// its name here, e.g. "top_p".
absl::Status ValidateSampling(const SamplingParams& params,
                              uint32_t vocabulary);

// max_tokens >= 1 and not below min_tokens; token ids below `vocabulary`.
// Errors as above.
absl::Status ValidateStop(const StopConditions& stop, uint32_t vocabulary);

// kNone: the sequence could go on (a prefill role stops after one token).
enum class FinishReason { kNone, kStop, kLength, kAborted };

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_SAMPLING_PARAMS_H_
