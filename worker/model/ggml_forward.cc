#include "worker/model/ggml_forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
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

// Sum of exp(value - highest). Those far below add nothing that a draft could
// notice.
float ExpSum(std::span<const float> values, float highest) {
  float sum = 0;
  for (const float value : values) {
    if (value > highest - 16.0f) sum += std::exp(value - highest);
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgmlForward>> GgmlForward::Create(
    const ForwardParts& parts) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<StrictBackend> backend,
                         StrictBackend::Create(parts.threads));
  return std::unique_ptr<GgmlForward>(
      new GgmlForward(parts, std::move(backend)));
}

GgmlForward::GgmlForward(const ForwardParts& parts,
                         std::unique_ptr<StrictBackend> backend)
    : parts_(parts),
      backend_(std::move(backend)),
      attention_(parts.cache, backend_->threads(), parts.form),
      matmul_(&CheckedForms(parts.form)),
      rows_(MakeRowParameters(parts.hp, *parts.weights, parts.form)),
      no_hidden_(parts.hp.embedding),
      graphs_(backend_->buffer_type(), MakeSetting(),
              parts.hp.layers * kTensorsPerLayer + kTensorsBeside,
              [this](GraphBuilder* graph) {
                parts_.architecture->BuildGraph(graph);
              }),
      draft_graphs_(backend_->buffer_type(), MakeSetting(),
                    kTensorsPerLayer + kTensorsBeside,
                    [this](GraphBuilder* graph) {
                      parts_.architecture->BuildDraftGraph(graph);
                    }) {
  for (uint32_t i = 0; i < parts.cache.layers; ++i) {
    layers_.push_back({&attention_, i});
  }
}

// Addresses of members that are filled later are fine: graphs come later.
GraphSetting GgmlForward::MakeSetting() {
  GraphSetting setting;
  setting.hp = &parts_.hp;
  setting.weights = parts_.weights;
  setting.layers = &layers_;
  setting.matmul = matmul_;
  setting.rows = &rows_;
  if (parts_.mtp != nullptr) {
    setting.draft_weights = &parts_.mtp->weights();
    setting.draft_output = parts_.mtp->output();
    setting.hidden_rows = &hidden_rows_;
  }
  return setting;
}

float* GgmlForward::Tail(uint32_t block) const {
  const CacheShape& cache = parts_.cache;
  return reinterpret_cast<float*>(cache.arena + block * cache.block_bytes +
                                  cache.ContentBytes());
}

const float* GgmlForward::HiddenBefore(
    uint32_t position, std::span<const uint32_t> block_table) const {
  return position == 0 ? no_hidden_.data()
                       : Tail(block_table[(position - 1) / kBlockTokens]);
}

void GgmlForward::AddRun(std::span<const TokenId> tokens,
                         uint32_t start_position,
                         std::span<const uint32_t> block_table) {
  RowRun run;
  run.first_row = static_cast<uint32_t>(tokens_.size());
  run.rows = static_cast<uint32_t>(tokens.size());
  run.start_position = start_position;
  run.block_table = block_table;
  runs_.push_back(run);
  for (uint32_t i = 0; i < run.rows; ++i) {
    tokens_.push_back(tokens[i]);
    positions_.push_back(static_cast<int32_t>(start_position + i));
  }
}

StepShape GgmlForward::Flatten(const StepBatch& batch) {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  runs_.clear();
  for (const SequenceRows& sequence : batch.sequences) {
    AddRun(sequence.tokens, sequence.start_position, sequence.block_table);
    const RowRun& run = runs_.back();
    for (uint32_t i = run.rows - sequence.logit_rows; i < run.rows; ++i) {
      logit_rows_.push_back(static_cast<int32_t>(run.first_row + i));
    }
  }
  attention_.SetStep(runs_);
  if (drafts()) {
    hidden_rows_.before.assign(tokens_.size(), nullptr);
    tables_.clear();
    for (const RowRun& run : runs_) {
      hidden_rows_.before[run.first_row] =
          HiddenBefore(run.start_position, run.block_table);
      tables_.emplace_back(run.block_table.begin(), run.block_table.end());
    }
  }
  return {static_cast<uint32_t>(tokens_.size()),
          static_cast<uint32_t>(logit_rows_.size())};
}

StepShape GgmlForward::Flatten(std::span<const DraftRow> rows) {
  tokens_.clear();
  positions_.clear();
  runs_.clear();
  hidden_rows_.before.clear();
  for (const DraftRow& row : rows) {
    AddRun({&row.token, 1}, row.position, row.block_table);
    hidden_rows_.before.push_back(
        row.hidden.empty() ? HiddenBefore(row.position, row.block_table)
                           : row.hidden.data());
  }
  attention_.SetStep(runs_);
  return {static_cast<uint32_t>(rows.size()), 0};
}

absl::Status GgmlForward::Compute(const StepGraph& graph) {
  Fill(graph.builder().tokens(), tokens_);
  Fill(graph.builder().positions(), positions_);
  Fill(graph.builder().logit_row_ids(), logit_rows_);
  return backend_->Compute(graph.graph());
}

absl::StatusOr<StepLogits> GgmlForward::Run(const StepBatch& batch) {
  const StepShape shape = Flatten(batch);
  StepLogits logits;
  logits.vocabulary = parts_.hp.vocabulary;
  hidden_ = nullptr;
  if (shape.rows == 0) return logits;
  BATON_ASSIGN_OR_RETURN(const StepGraph* graph, graphs_.Get(shape));
  BATON_RETURN_IF_ERROR(Compute(*graph));
  if (const ggml_tensor* result = graph->builder().logits();
      result != nullptr) {
    logits.values = std::span<const float>(
        static_cast<const float*>(result->data),
        static_cast<size_t>(shape.logit_rows) * parts_.hp.vocabulary);
  }
  if (const ggml_tensor* hidden = graph->builder().hidden();
      hidden != nullptr) {
    hidden_ = static_cast<const float*>(hidden->data);
  }
  return logits;
}

void GgmlForward::Keep(size_t index, uint32_t rows) {
  if (hidden_ == nullptr || rows == 0) return;
  const RowRun& run = runs_[index];
  const size_t embedding = parts_.hp.embedding;
  const uint32_t end = run.start_position + rows;
  // The last kept position of each block.
  for (uint32_t next = run.start_position; next < end;) {
    const uint32_t block = next / kBlockTokens;
    next = std::min(end, (block + 1) * kBlockTokens);
    const size_t row = run.first_row + (next - 1 - run.start_position);
    std::copy_n(hidden_ + row * embedding, embedding,
                Tail(tables_[index][block]));
  }
}

absl::StatusOr<DraftStep> GgmlForward::RunDraft(
    std::span<const DraftRow> rows) {
  DraftStep step;
  if (rows.empty()) return step;
  const StepShape shape = Flatten(rows);
  hidden_ = nullptr;
  BATON_ASSIGN_OR_RETURN(const StepGraph* graph, draft_graphs_.Get(shape));
  logit_rows_.clear();
  BATON_RETURN_IF_ERROR(Compute(*graph));
  const ggml_tensor* logits = graph->builder().logits();
  const size_t vocabulary = static_cast<size_t>(logits->ne[0]);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> row(
        static_cast<const float*>(logits->data) + i * vocabulary, vocabulary);
    const size_t best = static_cast<size_t>(
        std::max_element(row.begin(), row.end()) - row.begin());
    step.tokens.push_back(parts_.mtp->token(static_cast<uint32_t>(best)));
    step.probabilities.push_back(1.0f / ExpSum(row, row[best]));
  }
  const ggml_tensor* hidden = graph->builder().hidden();
  const float* values = static_cast<const float*>(hidden->data);
  step.hidden.assign(values, values + ggml_nelements(hidden));
  return step;
}

}  // namespace baton::worker
