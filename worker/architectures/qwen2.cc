// Qwen2 and Qwen2.5 (arXiv:2407.10671): as Llama, with biases on the query,
// key and value projections and rotary positions over the two halves of a
// head. The output matrix is tied in the small models.
#include "worker/architectures/registry.h"
#include "worker/graph/graph_builder.h"

namespace baton::worker {
namespace {

class Qwen2 final : public Architecture {
 public:
  absl::string_view name() const override { return "qwen2"; }

  absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const override {
    return ReadDenseHyperparameters(header, name(), RopePairs::kHalves);
  }

  std::vector<TensorSpec> Tensors(const Hyperparameters& hp) const override {
    std::vector<TensorSpec> specs = DenseTensors(hp);
    const int64_t q = static_cast<int64_t>(hp.heads) * hp.head_dim;
    const int64_t kv = static_cast<int64_t>(hp.kv_heads) * hp.head_dim;
    for (uint32_t i = 0; i < hp.layers; ++i) {
      specs.push_back({LayerTensor(i, "attn_q.bias"), {q}});
      specs.push_back({LayerTensor(i, "attn_k.bias"), {kv}});
      specs.push_back({LayerTensor(i, "attn_v.bias"), {kv}});
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
      ggml_tensor* k =
          graph->Linear(h, name("attn_k.weight"), name("attn_k.bias"));
      ggml_tensor* v =
          graph->Linear(h, name("attn_v.weight"), name("attn_v.bias"));
      graph->WriteCache(i, graph->Rope(graph->SplitHeads(k, hp.kv_heads)),
                        graph->SplitHeads(v, hp.kv_heads));
      if (last && !graph->HasLogits()) return;
      ggml_tensor* q =
          graph->Linear(h, name("attn_q.weight"), name("attn_q.bias"));
      ggml_tensor* attended =
          graph->Attend(i, graph->Rope(graph->SplitHeads(q, hp.heads)));
      x = graph->EndLayer(i, x, attended);
    }
    graph->Finish(x);
  }
};

}  // namespace

const Architecture& Qwen2Architecture() {
  static const Qwen2 architecture;
  return architecture;
}

}  // namespace baton::worker
