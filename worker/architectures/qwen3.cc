// Qwen3, dense (arXiv:2505.09388): as Qwen2 without biases, with an RMS norm
// over each head's query and key before the rotary positions. Head size comes
// from attention.key_length and need not be embedding / heads.
#include "worker/architectures/registry.h"
#include "worker/graph/graph_builder.h"

namespace baton::worker {
namespace {

class Qwen3 final : public Architecture {
 public:
  absl::string_view name() const override { return "qwen3"; }

  absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const override {
    return ReadDenseHyperparameters(header, name(), RopePairs::kHalves);
  }

  std::vector<TensorSpec> Tensors(const Hyperparameters& hp) const override {
    std::vector<TensorSpec> specs = DenseTensors(hp);
    for (uint32_t i = 0; i < hp.layers; ++i) {
      specs.push_back({LayerTensor(i, "attn_q_norm.weight"), {hp.head_dim}});
      specs.push_back({LayerTensor(i, "attn_k_norm.weight"), {hp.head_dim}});
    }
    return specs;
  }

  void BuildGraph(GraphBuilder* graph) const override {
    const Hyperparameters& hp = graph->hp();
    ggml_tensor* x = graph->Embed();
    for (uint32_t i = 0; i < hp.layers; ++i) {
      const auto name = [&](const char* what) { return LayerTensor(i, what); };
      const bool last = i + 1 == hp.layers;
      ggml_tensor* h = graph->RmsNorm(x, name("attn_norm.weight"));
      ggml_tensor* k = graph->SplitHeads(
          graph->Linear(h, name("attn_k.weight")), hp.kv_heads);
      ggml_tensor* v = graph->SplitHeads(
          graph->Linear(h, name("attn_v.weight")), hp.kv_heads);
      k = graph->Rope(graph->RmsNorm(k, name("attn_k_norm.weight")));
      graph->WriteCache(i, k, v);
      if (last && !graph->HasLogits()) return;
      ggml_tensor* q =
          graph->SplitHeads(graph->Linear(h, name("attn_q.weight")), hp.heads);
      q = graph->Rope(graph->RmsNorm(q, name("attn_q_norm.weight")));
      ggml_tensor* attended = graph->Attend(i, q);
      x = graph->EndLayer(i, x, attended);
    }
    graph->Finish(x);
  }
};

}  // namespace

const Architecture& Qwen3Architecture() {
  static const Qwen3 architecture;
  return architecture;
}

}  // namespace baton::worker
