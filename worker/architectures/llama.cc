// Llama (Touvron et al., arXiv:2302.13971, and its successors up to Llama 3.2;
// also SmolLM2 and other models converted as "llama"): RMS norm before each
// half, rotary positions over adjacent pairs, gated feed-forward. Optional:
// RoPE frequency factors (Llama 3.1), linear RoPE scaling, biases, a tied
// output matrix.
#include "worker/architectures/dense_architecture.h"
#include "worker/architectures/registry.h"

namespace baton::worker {
namespace {

class Llama final : public DenseArchitecture {
 public:
  absl::string_view name() const override { return "llama"; }

  absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const override {
    return ReadDenseHyperparameters(header, name(), RopePairs::kAdjacent);
  }

 private:
  std::vector<TensorSpec> FamilyTensors(
      const Hyperparameters& hp) const override {
    return {{"rope_freqs.weight", {hp.rope.dimensions / 2}, false}};
  }

  std::vector<TensorSpec> FamilyLayerTensors(const Hyperparameters& hp,
                                             uint32_t layer) const override {
    const int64_t d = hp.embedding, ff = hp.feed_forward;
    const int64_t q = static_cast<int64_t>(hp.heads) * hp.head_dim;
    const int64_t kv = static_cast<int64_t>(hp.kv_heads) * hp.head_dim;
    return {{LayerTensor(layer, "attn_q.bias"), {q}, false},
            {LayerTensor(layer, "attn_k.bias"), {kv}, false},
            {LayerTensor(layer, "attn_v.bias"), {kv}, false},
            {LayerTensor(layer, "attn_output.bias"), {d}, false},
            {LayerTensor(layer, "ffn_gate.bias"), {ff}, false},
            {LayerTensor(layer, "ffn_up.bias"), {ff}, false},
            {LayerTensor(layer, "ffn_down.bias"), {d}, false}};
  }

  void WriteKeysAndValues(GraphBuilder* graph, uint32_t layer,
                          ggml_tensor* normed) const override {
    const uint32_t heads = graph->hp().kv_heads;
    ggml_tensor* k = graph->Linear(normed, LayerTensor(layer, "attn_k.weight"),
                                   LayerTensor(layer, "attn_k.bias"));
    ggml_tensor* v = graph->Linear(normed, LayerTensor(layer, "attn_v.weight"),
                                   LayerTensor(layer, "attn_v.bias"));
    graph->WriteCache(layer, graph->Rope(graph->SplitHeads(k, heads)),
                      graph->SplitHeads(v, heads));
  }

  ggml_tensor* Queries(GraphBuilder* graph, uint32_t layer,
                       ggml_tensor* normed) const override {
    ggml_tensor* q = graph->Linear(normed, LayerTensor(layer, "attn_q.weight"),
                                   LayerTensor(layer, "attn_q.bias"));
    return graph->Rope(graph->SplitHeads(q, graph->hp().heads));
  }
};

}  // namespace

const Architecture& LlamaArchitecture() {
  static const Llama architecture;
  return architecture;
}

}  // namespace baton::worker
