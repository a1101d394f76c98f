#include "worker/model/ggml_forward.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ggml-alloc.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"
#include "worker/kernels/matmul/form_check.h"

namespace baton::worker {
namespace {

// Tensors of a layer's graph, with room: some 30 operations and views.
constexpr size_t kTensorsPerLayer = 48;
constexpr size_t kTensorsBeside = 64;

void Fill(ggml_tensor* input, const std::vector<int32_t>& values) {
  if (input == nullptr) return;
  std::memcpy(input->data, values.data(), values.size() * sizeof(int32_t));
}

const MatMulForms& CheckedForms(KernelForm form) {
  return CheckedMatMulFormsOf(
      form, [](const MatMulForms& forms, const std::string& difference) {
        Log(LogLevel::kWarning,
            "matrix products are wrong on this processor; using slower ones",
            {{"form", forms.name}, {"differs_in", difference}});
      });
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgmlForward>> GgmlForward::Create(
    const Architecture* architecture, const Hyperparameters& hp,
    const Weights* weights, const CacheShape& cache, int threads,
    KernelForm form) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<StrictBackend> backend,
                         StrictBackend::Create(threads));
  std::unique_ptr<GgmlForward> forward(new GgmlForward(
      architecture, hp, weights, cache, std::move(backend), form));
  if (forward->allocator_ == nullptr) {
    return absl::InternalError("no ggml graph allocator");
  }
  return forward;
}

GgmlForward::GgmlForward(const Architecture* architecture,
                         const Hyperparameters& hp, const Weights* weights,
                         const CacheShape& cache,
                         std::unique_ptr<StrictBackend> backend,
                         KernelForm form)
    : architecture_(architecture),
      hp_(hp),
      weights_(weights),
      backend_(std::move(backend)),
      attention_(cache, backend_->threads(), form),
      matmul_(&CheckedForms(form)),
      rows_(MakeRowParameters(hp, *weights, form)),
      allocator_(ggml_gallocr_new(backend_->buffer_type())) {
  for (uint32_t i = 0; i < hp_.layers; ++i) {
    layers_.push_back({&attention_, i});
  }
}

GgmlForward::~GgmlForward() {
  if (context_ != nullptr) ggml_free(context_);
  if (allocator_ != nullptr) ggml_gallocr_free(allocator_);
}

StepShape GgmlForward::Flatten(const StepBatch& batch) {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  runs_.clear();
  for (const SequenceRows& sequence : batch.sequences) {
    RowRun run;
    run.first_row = tokens_.size();
    run.rows = sequence.tokens.size();
    run.start_position = sequence.start_position;
    run.block_table = sequence.block_table;
    runs_.push_back(run);
    for (uint32_t i = 0; i < run.rows; ++i) {
      tokens_.push_back(sequence.tokens[i]);
      positions_.push_back(static_cast<int32_t>(run.start_position + i));
    }
    for (uint32_t i = run.rows - sequence.logit_rows; i < run.rows; ++i) {
      logit_rows_.push_back(static_cast<int32_t>(run.first_row + i));
    }
  }
  attention_.SetStep(runs_);
  return {static_cast<uint32_t>(tokens_.size()),
          static_cast<uint32_t>(logit_rows_.size())};
}

absl::Status GgmlForward::PrepareGraph(const StepShape& shape) {
  if (context_ != nullptr && shape == shape_) return absl::OkStatus();
  builder_.reset();
  if (context_ != nullptr) ggml_free(context_);
  const size_t tensors = hp_.layers * kTensorsPerLayer + kTensorsBeside;
  context_ = ggml_init({/*mem_size=*/tensors * ggml_tensor_overhead() +
                            ggml_graph_overhead_custom(tensors, false),
                        /*mem_buffer=*/nullptr, /*no_alloc=*/true});
  if (context_ == nullptr) {
    return absl::InternalError("no memory for a ggml graph");
  }
  graph_ = ggml_new_graph_custom(context_, tensors, false);
  builder_ = std::make_unique<GraphBuilder>(hp_, *weights_, &layers_, matmul_,
                                            &rows_, shape, context_, graph_);
  architecture_->BuildGraph(builder_.get());
  if (!ggml_gallocr_alloc_graph(allocator_, graph_)) {
    ggml_free(context_);
    context_ = nullptr;
    return absl::InternalError(
        absl::StrCat("no memory for the activations of ", shape.rows, " rows"));
  }
  shape_ = shape;
  return absl::OkStatus();
}

absl::StatusOr<StepLogits> GgmlForward::Run(const StepBatch& batch) {
  const StepShape shape = Flatten(batch);
  StepLogits logits;
  logits.vocabulary = hp_.vocabulary;
  if (shape.rows == 0) return logits;
  BATON_RETURN_IF_ERROR(PrepareGraph(shape));
  Fill(builder_->tokens(), tokens_);
  Fill(builder_->positions(), positions_);
  Fill(builder_->logit_row_ids(), logit_rows_);
  BATON_RETURN_IF_ERROR(backend_->Compute(graph_));
  if (const ggml_tensor* result = builder_->logits(); result != nullptr) {
    logits.values = std::span<const float>(
        static_cast<const float*>(result->data),
        static_cast<size_t>(shape.logit_rows) * hp_.vocabulary);
  }
  return logits;
}

}  // namespace baton::worker
