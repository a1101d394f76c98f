// The vocabulary in which an architecture writes its graph: each operation
// gives every row one order of additions, whatever the other rows are. An
// architecture uses nothing else of ggml, which keeps it within strict
// numerics.
//
// Activations are [features, rows], f32. Rows are those of the step, in the
// order of the batch.
#ifndef BATON_WORKER_GRAPH_GRAPH_BUILDER_H_
#define BATON_WORKER_GRAPH_GRAPH_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ggml.h"
#include "worker/graph/architecture.h"
#include "worker/graph/kernel_ops.h"
#include "worker/graph/row_ops.h"
#include "worker/graph/weights.h"

namespace baton::worker {

// What distinguishes one graph from another; a graph serves every step of its
// shape.
struct StepShape {
  uint32_t rows = 0;
  uint32_t logit_rows = 0;
  bool operator==(const StepShape&) const = default;
};

// What graphs of all shapes have in common. The pointees must outlive every
// graph.
struct GraphSetting {
  const Hyperparameters* hp = nullptr;
  const Weights* weights = nullptr;
  // One for each layer, then one for the MTP block if there is one.
  std::vector<AttentionLayer>* layers = nullptr;
  const MatMulForms* matmul = nullptr;
  const RowParameters* rows = nullptr;
  // The MTP block; all null if the model has none.
  const Weights* draft_weights = nullptr;  // "blk.<layers>.*"
  ggml_tensor* draft_output = nullptr;     // [embedding, draft vocabulary]
  const HiddenRows* hidden_rows = nullptr;
};

class GraphBuilder {
 public:
  GraphBuilder(const GraphSetting& setting, const StepShape& shape,
               ggml_context* context, ggml_cgraph* graph);

  const Hyperparameters& hp() const { return *setting_.hp; }
  // The model has an MTP block: the hidden rows of all rows are needed.
  bool drafts() const { return setting_.draft_weights != nullptr; }

  // Rows of token_embd for the step's tokens.
  ggml_tensor* Embed();
  // x / sqrt(mean(x^2) + epsilon) * weight, over ne[0].
  ggml_tensor* RmsNorm(ggml_tensor* x, const std::string& weight);
  // weight * x, and + bias if the model has a tensor of that name.
  ggml_tensor* Linear(ggml_tensor* x, const std::string& weight,
                      const std::string& bias = "");
  // [heads * head_dim, rows] as [head_dim, heads, rows].
  ggml_tensor* SplitHeads(ggml_tensor* x, uint32_t heads);
  // Turns [head_dim, heads, rows] by the rows' positions.
  ggml_tensor* Rope(ggml_tensor* x);
  // Stores k and v of all rows in the cache of `layer`. Must come before the
  // layer's Attend.
  void WriteCache(uint32_t layer, ggml_tensor* k, ggml_tensor* v);
  // [head_dim, heads, rows] to [head_dim * heads, rows].
  ggml_tensor* Attend(uint32_t layer, ggml_tensor* q);
  // The rest of a layer after attention, with both residual sums: output
  // projection, norm, gated feed-forward. In the last layer only for the rows
  // that yield logits, if nothing needs the others.
  ggml_tensor* EndLayer(uint32_t layer, ggml_tensor* x, ggml_tensor* attended);
  // silu(gate x) * up x, through down.
  ggml_tensor* GatedFeedForward(uint32_t layer, ggml_tensor* x);
  // Nothing reads what `layer` would give: the last layer of an inner chunk of
  // a prompt ends with its WriteCache.
  bool EndsWithCache(uint32_t layer) const {
    return layer + 1 == hp().layers && !HasLogits() && !drafts();
  }
  // Norm and output matrix; the graph's result. Returns the hidden rows: of
  // all rows if drafts(), else of those that yield logits.
  ggml_tensor* Finish(ggml_tensor* x);

  // What the MTP block's layer reads: eh_proj of the rows' embeddings and the
  // hidden rows of the positions before them: `hidden`, but for the first row
  // of each sequence, or all from outside (nullptr).
  ggml_tensor* DraftInput(ggml_tensor* embedded, ggml_tensor* hidden);
  // Norm and draft matrix; the results of a draft step.
  void FinishDraft(ggml_tensor* x);

  // Inputs, to be filled before each run; nullptr where unused.
  ggml_tensor* tokens() const { return tokens_; }
  ggml_tensor* positions() const { return positions_; }
  ggml_tensor* logit_row_ids() const { return logit_row_ids_; }
  // [vocabulary, logit_rows], or nullptr; of a draft step [draft vocabulary,
  // rows].
  ggml_tensor* logits() const { return logits_; }
  // [embedding, rows] after the output norm; nullptr without an MTP block.
  ggml_tensor* hidden() const { return hidden_; }

 private:
  bool HasLogits() const { return shape_.logit_rows > 0; }
  ggml_tensor* FindWeight(const std::string& name) const;
  ggml_tensor* Weight(const std::string& name) const;
  ggml_tensor* Multiply(ggml_tensor* x, ggml_tensor* weight);
  ggml_tensor* Result(ggml_tensor* tensor);
  ggml_tensor* Input(uint32_t count, const char* name);
  // x rounded for products; once for all matrices that read it.
  ggml_tensor* Quantised(ggml_tensor* x, ActivationFormat format);
  ggml_tensor* TakeLogitRows(ggml_tensor* x);

  const GraphSetting setting_;
  const StepShape shape_;
  ggml_context* const context_;
  ggml_cgraph* const graph_;
  ggml_tensor* tokens_ = nullptr;
  ggml_tensor* positions_ = nullptr;
  ggml_tensor* logit_row_ids_ = nullptr;
  ggml_tensor* rope_table_ = nullptr;
  ggml_tensor* logits_ = nullptr;
  ggml_tensor* hidden_ = nullptr;
  std::vector<ggml_tensor*> written_;  // by layer
  std::map<std::pair<ggml_tensor*, ActivationFormat>, ggml_tensor*> quantised_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_GRAPH_BUILDER_H_
