// The sampling chain of sampling_params.h: from the logits of one position to
// one token. A pure function of its input: the random number is that of (seed,
// position), arithmetic is in a fixed order (double for sums and products, one
// rounding to f32 after step 2), ties go to the lowest id. So a position gives
// the same token on whichever worker and however often it is sampled.
#ifndef BATON_WORKER_SAMPLING_SAMPLING_CHAIN_H_
#define BATON_WORKER_SAMPLING_SAMPLING_CHAIN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "worker/sampling/descending_cursor.h"
#include "worker/sampling/sampling_params.h"
#include "worker/sampling/token_history.h"

namespace baton::worker {

struct SamplingInput {
  std::span<const float> logits;  // [vocabulary]
  // Validated against this vocabulary (ValidateSampling).
  const SamplingParams& params;
  // Tokens before this position.
  const TokenHistory& history;
  // Index in the sequence of the token to be drawn.
  uint32_t position = 0;
  // Tokens that must not be drawn here (end tokens before min_tokens).
  std::span<const TokenId> masked = {};
};

// Holds work memory of one vocabulary between calls, nothing else.
// Thread-compatible.
class SamplingChain {
 public:
  // In [0, 1), by seed and position.
  using UniformSource = std::function<double(uint64_t, uint32_t)>;

  // Draws with Philox (philox.h).
  SamplingChain();
  // Tests choose the numbers.
  explicit SamplingChain(UniformSource uniform)
      : uniform_(std::move(uniform)) {}

  // Errors: kInternal (a logit is NaN or +inf; no token is left), which says
  // nothing about other rows; kInvalidArgument (a token of `masked`, the bias
  // or the history is outside the row).
  absl::StatusOr<SampledToken> Sample(const SamplingInput& input);

 private:
  // Steps 1 and 2. Returns the input row itself if nothing changes it.
  absl::StatusOr<std::span<const float>> Adjust(const SamplingInput& input);
  // Steps 4 and 5.
  TokenId Draw(const SamplingInput& input, std::span<const float> row,
               float maximum);
  // Step 4: how many of the largest candidates stay; whole vocabulary if
  // nothing is cut.
  size_t CountKept(const SamplingParams& params, std::span<const float> row,
                   float maximum);
  void AddLogprobs(const SamplingParams& params, std::span<const float> row,
                   float maximum, SampledToken* sampled);

  UniformSource uniform_;
  std::vector<float> adjusted_;
  DescendingCursor cursor_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_SAMPLING_CHAIN_H_
