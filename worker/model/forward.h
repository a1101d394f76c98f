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

// One sequence's part in a step of the MTP block, which writes its row at
// `position` and proposes the token after it.
struct DraftRow {
  TokenId token = 0;  // committed or drafted; stands at `position`
  uint32_t position = 0;
  std::span<const uint32_t> block_table;  // covers `position`
  // The hidden row that the draft step before gave for it; empty: the model's
  // own row of `position` - 1, which its block keeps.
  std::span<const float> hidden;
};

// By row: the likeliest token of the draft vocabulary, its probability there,
// and the hidden row for the next step.
struct DraftStep {
  std::vector<TokenId> tokens;
  std::vector<float> probabilities;
  std::vector<float> hidden;  // [rows, embedding]
  std::span<const float> hidden_row(size_t i) const {
    const size_t embedding = hidden.size() / tokens.size();
    return std::span<const float>(hidden).subspan(i * embedding, embedding);
  }
};

// Device thread only.
class Forward {
 public:
  virtual ~Forward() = default;
  // Errors: kInternal. Tokens are in range and blocks are held: the engine
  // has checked both. If drafts(), the MTP block's rows are written too.
  virtual absl::StatusOr<StepLogits> Run(const StepBatch& batch) = 0;

  // The model has an MTP block.
  virtual bool drafts() const { return false; }
  // After a Run: of the rows of its sequence `index`, the first `rows` stay.
  // Their last hidden row is kept in its block, for the MTP row that follows.
  virtual void Keep(size_t index, uint32_t rows) { (void)index, (void)rows; }
  // One draft step. Only if drafts(). Errors: kInternal.
  virtual absl::StatusOr<DraftStep> RunDraft(std::span<const DraftRow> rows) {
    (void)rows;
    return absl::UnimplementedError("the model has no MTP block");
  }
  virtual uint32_t vocabulary() const = 0;
  virtual uint32_t context_length() const = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_FORWARD_H_
