// One forward pass over rows of many sequences, as the engine sees it. The
// real one is GgmlForward (ggml_forward.h); engine tests use a fake.
//
// Strict numerics: the logits of a row depend on its token, its position and
// the KV rows before it, and on nothing else: not on the other rows of the
// step, the order of sequences, the chunk edges or the thread count.
#ifndef BATON_WORKER_MODEL_FORWARD_H_
#define BATON_WORKER_MODEL_FORWARD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/ids.h"

namespace baton::worker {

// Rows of one sequence in a step: consecutive tokens from `start_position`.
// The pass writes their K and V rows into the sequence's blocks, then attends
// over positions 0..own.
struct SequenceRows {
  std::span<const TokenId> tokens;  // at least one
  uint32_t start_position = 0;      // of tokens[0]
  // Pool indices of blocks that cover positions 0 .. start + tokens - 1; block
  // i holds positions [64 i, 64 (i + 1)).
  std::span<const uint32_t> block_table;
  // The last `logit_rows` rows yield logits (0 for an inner prefill chunk).
  uint32_t logit_rows = 0;
};

struct StepBatch {
  std::vector<SequenceRows> sequences;
};

// Logits of a step, f32: row-major [sum of logit_rows, vocabulary], rows in
// the order of the batch. Valid until the next Run.
struct StepLogits {
  std::span<const float> values;
  uint32_t vocabulary = 0;
  std::span<const float> row(uint32_t i) const {
    return values.subspan(static_cast<size_t>(i) * vocabulary, vocabulary);
  }
};

// Device thread only.
class Forward {
 public:
  virtual ~Forward() = default;
  // Errors: kInternal. Tokens are in range and blocks are held: the engine
  // has checked both.
  virtual absl::StatusOr<StepLogits> Run(const StepBatch& batch) = 0;
  virtual uint32_t vocabulary() const = 0;
  virtual uint32_t context_length() const = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_FORWARD_H_
