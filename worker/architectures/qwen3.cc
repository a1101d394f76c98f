// Qwen3, dense (arXiv:2505.09388): as Qwen2 without biases, with an RMS norm
// over each head's query and key before the rotary positions. Head size comes
// from attention.key_length and need not be embedding / heads.
#include "worker/architectures/dense_architecture.h"
#include "worker/architectures/registry.h"

namespace baton::worker {
namespace {

class Qwen3 final : public DenseArchitecture {
 public:
  absl::string_view name() const override { return "qwen3"; }

  absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const override {
    return ReadDenseHyperparameters(header, name(), RopePairs::kHalves);
  }

 private:
  std::vector<TensorSpec> FamilyLayerTensors(const Hyperparameters& hp,
                                             uint32_t layer) const override {
    return {{LayerTensor(layer, "attn_q_norm.weight"), {hp.head_dim}},
            {LayerTensor(layer, "attn_k_norm.weight"), {hp.head_dim}}};
  }

  void WriteKeysAndValues(GraphBuilder* graph, uint32_t layer,
                          ggml_tensor* normed) const override {
    const uint32_t heads = graph->hp().kv_heads;
    ggml_tensor* k = graph->SplitHeads(
        graph->Linear(normed, LayerTensor(layer, "attn_k.weight")), heads);
    ggml_tensor* v = graph->SplitHeads(
        graph->Linear(normed, LayerTensor(layer, "attn_v.weight")), heads);
    k = graph->RmsNorm(k, LayerTensor(layer, "attn_k_norm.weight"));
    graph->WriteCache(layer, graph->Rope(k), v);
  }

  ggml_tensor* Queries(GraphBuilder* graph, uint32_t layer,
                       ggml_tensor* normed) const override {
    ggml_tensor* q = graph->SplitHeads(
        graph->Linear(normed, LayerTensor(layer, "attn_q.weight")),
        graph->hp().heads);
    q = graph->RmsNorm(q, LayerTensor(layer, "attn_q_norm.weight"));
    return graph->Rope(q);
  }
};

}  // namespace

const Architecture& Qwen3Architecture() {
  static const Qwen3 architecture;
  return architecture;
}

}  // namespace baton::worker
