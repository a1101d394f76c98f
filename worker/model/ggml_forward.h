// The forward pass over a mapped model: one ggml graph for each step shape, run
// under StrictBackend, with our own attention over the paged cache.
//
// MTP: row p of its cache comes from the token at p and the hidden row of
// p - 1 (after the output norm; zeros before position 0). Every step writes
// the MTP rows of its own rows, prompts included, so they are right wherever
// the model's are. Behind its rows a block keeps one hidden row, that of its
// last position so far: the next step, or a draft, starts from it, whoever
// filled the block.
#ifndef BATON_WORKER_MODEL_GGML_FORWARD_H_
#define BATON_WORKER_MODEL_GGML_FORWARD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/graph/architecture.h"
#include "worker/graph/graph_builder.h"
#include "worker/graph/kernel_ops.h"
#include "worker/graph/row_ops.h"
#include "worker/graph/strict_backend.h"
#include "worker/graph/weights.h"
#include "worker/kernels/attention/paged_attention.h"
#include "worker/model/forward.h"
#include "worker/model/mtp_head.h"
#include "worker/model/step_graph.h"

namespace baton::worker {

// What a forward pass is made of. The pointees and the cache's arena must
// outlive it; the cache fits `hp` and has one layer more for an MTP block.
struct ForwardParts {
  const Architecture* architecture = nullptr;
  Hyperparameters hp;
  const Weights* weights = nullptr;
  const MtpHead* mtp = nullptr;  // null = none
  CacheShape cache;
  int threads = 1;
  KernelForm form = KernelForm::kScalar;
};

// Device thread only.
class GgmlForward final : public Forward {
 public:
  static absl::StatusOr<std::unique_ptr<GgmlForward>> Create(
      const ForwardParts& parts);

  absl::StatusOr<StepLogits> Run(const StepBatch& batch) override;
  bool drafts() const override { return parts_.mtp != nullptr; }
  void Keep(size_t index, uint32_t rows) override;
  absl::StatusOr<DraftStep> RunDraft(std::span<const DraftRow> rows) override;
  uint32_t vocabulary() const override { return parts_.hp.vocabulary; }
  uint32_t context_length() const override { return parts_.hp.context_length; }

 private:
  GgmlForward(const ForwardParts& parts,
              std::unique_ptr<StrictBackend> backend);

  GraphSetting MakeSetting();
  // Flattens the batch into tokens_, positions_, logit_rows_, hidden_rows_ and
  // the attention's step.
  StepShape Flatten(const StepBatch& batch);
  StepShape Flatten(std::span<const DraftRow> rows);
  // Adds a run of `tokens`; its rows follow those before it.
  void AddRun(std::span<const TokenId> tokens, uint32_t start_position,
              std::span<const uint32_t> block_table);
  absl::Status Compute(const StepGraph& graph);
  // The hidden row of the last position in `block` that was kept.
  float* Tail(uint32_t block) const;
  // That of the position before `position`; zeros before the first.
  const float* HiddenBefore(uint32_t position,
                            std::span<const uint32_t> block_table) const;

  const ForwardParts parts_;
  const std::unique_ptr<StrictBackend> backend_;
  PagedAttention attention_;
  const MatMulForms* const matmul_;
  const RowParameters rows_;            // ggml keeps its address
  std::vector<AttentionLayer> layers_;  // ggml keeps their addresses
  HiddenRows hidden_rows_;              // and its
  const std::vector<float> no_hidden_;  // [embedding] zeros
  StepGraphCache graphs_;
  StepGraphCache draft_graphs_;

  // Of the last step.
  const float* hidden_ = nullptr;  // [rows, embedding]; null without MTP
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> logit_rows_;
  std::vector<RowRun> runs_;
  // runs_[i]'s block table, for Keep: the caller's may change after Run.
  std::vector<std::vector<uint32_t>> tables_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_GGML_FORWARD_H_
