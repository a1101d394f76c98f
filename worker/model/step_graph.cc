#include "worker/model/step_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"

namespace baton::worker {

StepGraph::StepGraph(ggml_backend_buffer_type_t memory)
    : allocator_(ggml_gallocr_new(memory)) {}

StepGraph::~StepGraph() {
  Clear();
  if (allocator_ != nullptr) ggml_gallocr_free(allocator_);
}

void StepGraph::Clear() {
  builder_.reset();
  if (context_ != nullptr) ggml_free(context_);
  context_ = nullptr;
}

absl::Status StepGraph::Build(const GraphSetting& setting,
                              const StepShape& shape, size_t tensors,
                              const std::function<void(GraphBuilder*)>& build) {
  Clear();
  if (allocator_ == nullptr) {
    return absl::InternalError("no ggml graph allocator");
  }
  context_ = ggml_init({/*mem_size=*/tensors * ggml_tensor_overhead() +
                            ggml_graph_overhead_custom(tensors, false),
                        /*mem_buffer=*/nullptr, /*no_alloc=*/true});
  if (context_ == nullptr) {
    return absl::InternalError("no memory for a ggml graph");
  }
  graph_ = ggml_new_graph_custom(context_, tensors, false);
  auto builder =
      std::make_unique<GraphBuilder>(setting, shape, context_, graph_);
  build(builder.get());
  if (!ggml_gallocr_alloc_graph(allocator_, graph_)) {
    return absl::InternalError(
        absl::StrCat("no memory for the activations of ", shape.rows, " rows"));
  }
  builder_ = std::move(builder);
  shape_ = shape;
  return absl::OkStatus();
}

StepGraphCache::StepGraphCache(ggml_backend_buffer_type_t memory,
                               const GraphSetting& setting, size_t tensors,
                               BuildGraph build)
    : memory_(memory),
      setting_(setting),
      tensors_(tensors),
      build_(std::move(build)),
      large_(memory) {}

absl::StatusOr<StepGraph*> StepGraphCache::Get(const StepShape& shape) {
  StepGraph* graph = &large_;
  if (shape.rows <= kFewRows) {
    auto it = std::find_if(small_.begin(), small_.end(),
                           [&](const auto& kept) { return kept->Has(shape); });
    if (it == small_.end()) {
      if (small_.size() < kKept) {
        small_.push_back(std::make_unique<StepGraph>(memory_));
      }
      it = small_.end() - 1;
    }
    std::rotate(small_.begin(), it, it + 1);
    graph = small_.front().get();
  }
  if (!graph->Has(shape)) {
    BATON_RETURN_IF_ERROR(graph->Build(setting_, shape, tensors_, build_));
  }
  return graph;
}

}  // namespace baton::worker
