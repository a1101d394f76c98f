// Qwen2 and Qwen2.5 (arXiv:2407.10671): as Llama, with biases on the query,
// key and value projections and rotary positions over the two halves of a
// head. The output matrix is tied in the small models.
#include "worker/architectures/dense_architecture.h"
#include "worker/architectures/registry.h"

namespace baton::worker {
namespace {

class Qwen2 final : public DenseArchitecture {
 public:
  absl::string_view name() const override { return "qwen2"; }

  absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const override {
    return ReadDenseHyperparameters(header, name(), RopePairs::kHalves);
  }

 private:
  std::vector<TensorSpec> FamilyLayerTensors(const Hyperparameters& hp,
                                             uint32_t layer) const override {
    const int64_t q = static_cast<int64_t>(hp.heads) * hp.head_dim;
    const int64_t kv = static_cast<int64_t>(hp.kv_heads) * hp.head_dim;
    return {{LayerTensor(layer, "attn_q.bias"), {q}},
            {LayerTensor(layer, "attn_k.bias"), {kv}},
            {LayerTensor(layer, "attn_v.bias"), {kv}}};
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

const Architecture& Qwen2Architecture() {
  static const Qwen2 architecture;
  return architecture;
}

}  // namespace baton::worker
