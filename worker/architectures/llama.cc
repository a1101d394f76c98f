// Llama (Touvron et al., arXiv:2302.13971, and its successors up to Llama 3.2;
// also SmolLM2 and other models converted as "llama"): RMS norm before each
// half, rotary positions over adjacent pairs, gated feed-forward. Optional:
// RoPE frequency factors (Llama 3.1), linear RoPE scaling, biases, a tied
// output matrix.
#include "worker/architectures/registry.h"
#include "worker/graph/graph_builder.h"

namespace baton::worker {
namespace {

class Llama final : public Architecture {
 public:
  absl::string_view name() const override { return "llama"; }

  absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const override {
    return ReadDenseHyperparameters(header, name(), RopePairs::kAdjacent);
  }

  std::vector<TensorSpec> Tensors(const Hyperparameters& hp) const override {
    std::vector<TensorSpec> specs = DenseTensors(hp);
    const int64_t d = hp.embedding, ff = hp.feed_forward;
    const int64_t q = static_cast<int64_t>(hp.heads) * hp.head_dim;
    const int64_t kv = static_cast<int64_t>(hp.kv_heads) * hp.head_dim;
    specs.push_back({"rope_freqs.weight", {hp.rope.dimensions / 2}, false});
    for (uint32_t i = 0; i < hp.layers; ++i) {
      specs.push_back({LayerTensor(i, "attn_q.bias"), {q}, false});
      specs.push_back({LayerTensor(i, "attn_k.bias"), {kv}, false});
      specs.push_back({LayerTensor(i, "attn_v.bias"), {kv}, false});
      specs.push_back({LayerTensor(i, "attn_output.bias"), {d}, false});
      specs.push_back({LayerTensor(i, "ffn_gate.bias"), {ff}, false});
      specs.push_back({LayerTensor(i, "ffn_up.bias"), {ff}, false});
      specs.push_back({LayerTensor(i, "ffn_down.bias"), {d}, false});
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

const Architecture& LlamaArchitecture() {
  static const Llama architecture;
  return architecture;
}

}  // namespace baton::worker
