// The forward pass over a mapped model: one ggml graph for each step shape, run
// under StrictBackend, with our own attention over the paged cache.
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

namespace baton::worker {

// Device thread only.
class GgmlForward final : public Forward {
 public:
  // The pointees and the cache's arena must outlive this. `cache` fits `hp`.
  static absl::StatusOr<std::unique_ptr<GgmlForward>> Create(
      const Architecture* architecture, const Hyperparameters& hp,
      const Weights* weights, const CacheShape& cache, int threads,
      KernelForm form);
  ~GgmlForward() override;

  absl::StatusOr<StepLogits> Run(const StepBatch& batch) override;
  uint32_t vocabulary() const override { return hp_.vocabulary; }
  uint32_t context_length() const override { return hp_.context_length; }

 private:
  GgmlForward(const Architecture* architecture, const Hyperparameters& hp,
              const Weights* weights, const CacheShape& cache,
              std::unique_ptr<StrictBackend> backend, KernelForm form);

  // Flattens the batch into tokens_, positions_, logit_rows_ and the
  // attention's step.
  StepShape Flatten(const StepBatch& batch);
  // Builds and allocates the graph unless the last one has this shape.
  absl::Status PrepareGraph(const StepShape& shape);

  const Architecture* const architecture_;
  const Hyperparameters hp_;
  const Weights* const weights_;
  const std::unique_ptr<StrictBackend> backend_;
  PagedAttention attention_;
  const MatMulForms* const matmul_;
  const RowParameters rows_;            // ggml keeps its address
  std::vector<AttentionLayer> layers_;  // ggml keeps their addresses
  ggml_gallocr* allocator_ = nullptr;

  // The last step's graph. Its tensors keep their memory until the next one is
  // allocated, so it may run again for a step of the same shape: everything
  // else that differs between steps is in the inputs and in attention_.
  ggml_context* context_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  std::unique_ptr<GraphBuilder> builder_;
  StepShape shape_;

  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> logit_rows_;
  std::vector<RowRun> runs_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_GGML_FORWARD_H_
