#include "worker/graph/graph_builder.h"

#include <optional>

#include "services/base/status_macros.h"

namespace baton::worker {

GraphBuilder::GraphBuilder(const Hyperparameters& hp, const Weights& weights,
                           std::vector<AttentionLayer>* layers,
                           const MatMulForms* matmul, const RowParameters* rows,
                           const StepShape& shape, ggml_context* context,
                           ggml_cgraph* graph)
    : hp_(hp),
      weights_(weights),
      layers_(layers),
      matmul_(matmul),
      rows_(rows),
      shape_(shape),
      context_(context),
      graph_(graph),
      written_(hp.layers, nullptr) {
  tokens_ = Input(shape.rows, "tokens");
  positions_ = Input(shape.rows, "positions");
  if (HasLogits()) logit_row_ids_ = Input(shape.logit_rows, "logit rows");
  rope_table_ = RopeTableOp(context_, positions_, rows_);
}

ggml_tensor* GraphBuilder::Input(uint32_t count, const char* name) {
  ggml_tensor* input = ggml_new_tensor_1d(context_, GGML_TYPE_I32, count);
  ggml_set_name(input, name);
  ggml_set_input(input);
  // Not to be overwritten within a run: a reused graph is filled anew, but
  // an input without readers in this shape still needs its memory.
  ggml_set_output(input);
  ggml_build_forward_expand(graph_, input);
  return input;
}

ggml_tensor* GraphBuilder::Embed() {
  return EmbedOp(context_, weights_.Get("token_embd.weight"), tokens_);
}

ggml_tensor* GraphBuilder::RmsNorm(ggml_tensor* x, const std::string& weight) {
  return RmsNormOp(context_, x, weights_.Get(weight), rows_);
}

ggml_tensor* GraphBuilder::Linear(ggml_tensor* x, const std::string& weight,
                                  const std::string& bias) {
  ggml_tensor* w = weights_.Get(weight);
  const std::optional<WeightFormat> format = KernelFormat(w->type);
  ggml_tensor* product =
      format.has_value()
          ? MultiplyOp(context_, w, Quantised(x, ActivationOf(*format)),
                       matmul_)
          : ggml_mul_mat(context_, w, x);
  ggml_tensor* addend = bias.empty() ? nullptr : weights_.Find(bias);
  return addend == nullptr ? product : AddOp(context_, product, addend, rows_);
}

ggml_tensor* GraphBuilder::Quantised(ggml_tensor* x, ActivationFormat format) {
  if (format == ActivationFormat::kFloats) return x;
  ggml_tensor*& rounded = quantised_[{x, format}];
  if (rounded == nullptr) rounded = QuantiseOp(context_, x, format, matmul_);
  return rounded;
}

ggml_tensor* GraphBuilder::SplitHeads(ggml_tensor* x, uint32_t heads) {
  return ggml_reshape_3d(context_, x, hp_.head_dim, heads, shape_.rows);
}

ggml_tensor* GraphBuilder::Rope(ggml_tensor* x) {
  return RotateOp(context_, x, rope_table_, rows_);
}

void GraphBuilder::WriteCache(uint32_t layer, ggml_tensor* k, ggml_tensor* v) {
  written_[layer] = WriteCacheOp(context_, k, v, &(*layers_)[layer]);
  ggml_build_forward_expand(graph_, written_[layer]);
}

ggml_tensor* GraphBuilder::Attend(uint32_t layer, ggml_tensor* q) {
  BATON_CHECK(written_[layer] != nullptr,
              "an architecture writes the cache before it attends");
  return AttendOp(context_, q, written_[layer], &(*layers_)[layer]);
}

ggml_tensor* GraphBuilder::EndLayer(uint32_t layer, ggml_tensor* x,
                                    ggml_tensor* attended) {
  const auto name = [&](const char* what) { return LayerTensor(layer, what); };
  if (layer + 1 == hp_.layers) {
    attended = TakeLogitRows(attended);
    x = TakeLogitRows(x);
  }
  const SumAndNorm h = AddNormOp(
      context_, x,
      Linear(attended, name("attn_output.weight"), name("attn_output.bias")),
      weights_.Get(name("ffn_norm.weight")), rows_);
  return AddOp(context_, h.sum, GatedFeedForward(layer, h.normed), rows_);
}

ggml_tensor* GraphBuilder::GatedFeedForward(uint32_t layer, ggml_tensor* x) {
  const auto name = [&](const char* what) { return LayerTensor(layer, what); };
  ggml_tensor* gate = Linear(x, name("ffn_gate.weight"), name("ffn_gate.bias"));
  ggml_tensor* up = Linear(x, name("ffn_up.weight"), name("ffn_up.bias"));
  return Linear(SwiGluOp(context_, gate, up, rows_), name("ffn_down.weight"),
                name("ffn_down.bias"));
}

ggml_tensor* GraphBuilder::TakeLogitRows(ggml_tensor* x) {
  return GatherOp(context_, x, logit_row_ids_);
}

void GraphBuilder::Finish(ggml_tensor* x) {
  const char* head = weights_.Find("output.weight") != nullptr
                         ? "output.weight"
                         : "token_embd.weight";
  logits_ = Linear(RmsNorm(x, "output_norm.weight"), head);
  ggml_set_output(logits_);
  ggml_build_forward_expand(graph_, logits_);
}

}  // namespace baton::worker
