// Built graphs, kept by shape: steps of few rows come again and again in a few
// shapes, and building a graph costs as much as running a small one.
#ifndef BATON_WORKER_MODEL_STEP_GRAPH_H_
#define BATON_WORKER_MODEL_STEP_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "worker/graph/graph_builder.h"

namespace baton::worker {

// A graph with memory for its activations. Its tensors keep their memory until
// it is built anew, so it may run again for a step of the same shape:
// everything else that differs between steps is in its inputs and in what its
// operations point to.
class StepGraph {
 public:
  explicit StepGraph(ggml_backend_buffer_type_t memory);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  // A graph of at most `tensors`. Errors: kInternal (no memory); then there is
  // no graph.
  absl::Status Build(const GraphSetting& setting, const StepShape& shape,
                     size_t tensors,
                     const std::function<void(GraphBuilder*)>& build);
  bool Has(const StepShape& shape) const {
    return builder_ != nullptr && shape == shape_;
  }

  ggml_cgraph* graph() const { return graph_; }
  const GraphBuilder& builder() const { return *builder_; }

 private:
  void Clear();

  ggml_gallocr* const allocator_;
  ggml_context* context_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
  std::unique_ptr<GraphBuilder> builder_;
  StepShape shape_;
};

// Thread-compatible.
class StepGraphCache {
 public:
  using BuildGraph = std::function<void(GraphBuilder*)>;
  // `setting` is copied; what it points to outlives this. Graphs of at most
  // `tensors`.
  StepGraphCache(ggml_backend_buffer_type_t memory, const GraphSetting& setting,
                 size_t tensors, BuildGraph build);

  // The graph of `shape`, built if it is not there; valid until the next call.
  absl::StatusOr<StepGraph*> Get(const StepShape& shape);

 private:
  // Shapes of more rows share one graph's memory: it is large, and building
  // costs them little.
  static constexpr uint32_t kFewRows = 16;
  static constexpr size_t kKept = 12;

  const ggml_backend_buffer_type_t memory_;
  const GraphSetting setting_;
  const size_t tensors_;
  const BuildGraph build_;
  StepGraph large_;
  // The last used one first.
  std::vector<std::unique_ptr<StepGraph>> small_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_STEP_GRAPH_H_
