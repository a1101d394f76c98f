#include "worker/graph/graph_builder.h"

#include <optional>

#include "services/base/status_macros.h"

namespace baton::worker {

GraphBuilder::GraphBuilder(const GraphSetting& setting, const StepShape& shape,
                           ggml_context* context, ggml_cgraph* graph)
    : setting_(setting),
      shape_(shape),
      context_(context),
      graph_(graph),
      written_(setting.layers->size(), nullptr) {
  tokens_ = Input(shape.rows, "tokens");
  positions_ = Input(shape.rows, "positions");
  if (HasLogits()) logit_row_ids_ = Input(shape.logit_rows, "logit rows");
  rope_table_ = RopeTableOp(context_, positions_, setting_.rows);
}

ggml_tensor* GraphBuilder::FindWeight(const std::string& name) const {
  ggml_tensor* weight = setting_.weights->Find(name);
  return weight == nullptr && drafts() ? setting_.draft_weights->Find(name)
                                       : weight;
}

ggml_tensor* GraphBuilder::Weight(const std::string& name) const {
  ggml_tensor* weight = FindWeight(name);
  BATON_CHECK(weight != nullptr,
              "CheckTensors has required all that a graph uses");
  return weight;
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
  return EmbedOp(context_, Weight("token_embd.weight"), tokens_);
}

ggml_tensor* GraphBuilder::RmsNorm(ggml_tensor* x, const std::string& weight) {
  return RmsNormOp(context_, x, Weight(weight), setting_.rows);
}

ggml_tensor* GraphBuilder::Linear(ggml_tensor* x, const std::string& weight,
                                  const std::string& bias) {
  ggml_tensor* product = Multiply(x, Weight(weight));
  ggml_tensor* addend = bias.empty() ? nullptr : FindWeight(bias);
  return addend == nullptr ? product
                           : AddOp(context_, product, addend, setting_.rows);
}

ggml_tensor* GraphBuilder::Multiply(ggml_tensor* x, ggml_tensor* weight) {
  const std::optional<WeightFormat> format = KernelFormat(weight->type);
  return format.has_value()
             ? MultiplyOp(context_, weight, Quantised(x, ActivationOf(*format)),
                          setting_.matmul)
             : ggml_mul_mat(context_, weight, x);
}

ggml_tensor* GraphBuilder::Quantised(ggml_tensor* x, ActivationFormat format) {
  if (format == ActivationFormat::kFloats) return x;
  ggml_tensor*& rounded = quantised_[{x, format}];
  if (rounded == nullptr)
    rounded = QuantiseOp(context_, x, format, setting_.matmul);
  return rounded;
}

ggml_tensor* GraphBuilder::SplitHeads(ggml_tensor* x, uint32_t heads) {
  return ggml_reshape_3d(context_, x, hp().head_dim, heads, shape_.rows);
}

ggml_tensor* GraphBuilder::Rope(ggml_tensor* x) {
  return RotateOp(context_, x, rope_table_, setting_.rows);
}

void GraphBuilder::WriteCache(uint32_t layer, ggml_tensor* k, ggml_tensor* v) {
  written_[layer] = WriteCacheOp(context_, k, v, &(*setting_.layers)[layer]);
  ggml_build_forward_expand(graph_, written_[layer]);
}

ggml_tensor* GraphBuilder::Attend(uint32_t layer, ggml_tensor* q) {
  BATON_CHECK(written_[layer] != nullptr,
              "an architecture writes the cache before it attends");
  return AttendOp(context_, q, written_[layer], &(*setting_.layers)[layer]);
}

ggml_tensor* GraphBuilder::EndLayer(uint32_t layer, ggml_tensor* x,
                                    ggml_tensor* attended) {
  const auto name = [&](const char* what) { return LayerTensor(layer, what); };
  if (layer + 1 == hp().layers && !drafts()) {
    attended = TakeLogitRows(attended);
    x = TakeLogitRows(x);
  }
  const SumAndNorm h = AddNormOp(
      context_, x,
      Linear(attended, name("attn_output.weight"), name("attn_output.bias")),
      Weight(name("ffn_norm.weight")), setting_.rows);
  return AddOp(context_, h.sum, GatedFeedForward(layer, h.normed),
               setting_.rows);
}

ggml_tensor* GraphBuilder::GatedFeedForward(uint32_t layer, ggml_tensor* x) {
  const auto name = [&](const char* what) { return LayerTensor(layer, what); };
  ggml_tensor* gate = Linear(x, name("ffn_gate.weight"), name("ffn_gate.bias"));
  ggml_tensor* up = Linear(x, name("ffn_up.weight"), name("ffn_up.bias"));
  return Linear(SwiGluOp(context_, gate, up, setting_.rows),
                name("ffn_down.weight"), name("ffn_down.bias"));
}

ggml_tensor* GraphBuilder::TakeLogitRows(ggml_tensor* x) {
  return GatherOp(context_, x, logit_row_ids_);
}

ggml_tensor* GraphBuilder::Result(ggml_tensor* tensor) {
  ggml_set_output(tensor);
  ggml_build_forward_expand(graph_, tensor);
  return tensor;
}

ggml_tensor* GraphBuilder::Finish(ggml_tensor* x) {
  const char* head = FindWeight("output.weight") != nullptr
                         ? "output.weight"
                         : "token_embd.weight";
  ggml_tensor* normed = RmsNorm(x, "output_norm.weight");
  if (drafts()) hidden_ = Result(normed);
  if (HasLogits()) {
    logits_ = Result(Linear(drafts() ? TakeLogitRows(normed) : normed, head));
  }
  return normed;
}

ggml_tensor* GraphBuilder::DraftInput(ggml_tensor* embedded,
                                      ggml_tensor* hidden) {
  const auto name = [&](const char* what) {
    return LayerTensor(hp().layers, what);
  };
  ggml_tensor* before = PreviousHiddenOp(
      context_, hidden == nullptr ? embedded : hidden, setting_.hidden_rows);
  ggml_tensor* both =
      ggml_concat(context_, RmsNorm(embedded, name("nextn.enorm.weight")),
                  RmsNorm(before, name("nextn.hnorm.weight")), 0);
  return Linear(both, name("nextn.eh_proj.weight"));
}

void GraphBuilder::FinishDraft(ggml_tensor* x) {
  const std::string own =
      LayerTensor(hp().layers, "nextn.shared_head_norm.weight");
  hidden_ = Result(
      RmsNorm(x, FindWeight(own) != nullptr ? own : "output_norm.weight"));
  logits_ = Result(Multiply(hidden_, setting_.draft_output));
}

}  // namespace baton::worker
