// What is left to ggml in a forward pass: where the products are ours, every
// operation that computes is one of our kernels, all of whose forms give the
// same bits. So nothing in such a pass depends on the instruction set that
// ggml was compiled for (StrictForwardTest compares the forms on whole models).
#include <memory>
#include <string>
#include <vector>

#include "ggml.h"
#include "gtest/gtest.h"
#include "services/gguf/gguf_header.h"
#include "worker/architectures/registry.h"
#include "worker/graph/architecture.h"
#include "worker/graph/graph_builder.h"
#include "worker/graph/kernel_ops.h"
#include "worker/graph/mapped_file.h"
#include "worker/graph/row_ops.h"
#include "worker/graph/weights.h"

namespace baton::worker {
namespace {

constexpr size_t kTensors = 4096;

// A model's graph for a step of `shape`; nothing is computed.
class BuiltGraph {
 public:
  BuiltGraph(const std::string& path, const StepShape& shape)
      : file_(*MappedFile::Open(path)),
        header_(*gguf::GgufHeader::FromFile(path)),
        architecture_(
            FindArchitecture(*header_->String("general.architecture"))),
        hp_(*architecture_->ReadHyperparameters(*header_)),
        weights_(*Weights::Create(*header_, *file_)),
        rows_(MakeRowParameters(hp_, *weights_, KernelForm::kScalar)),
        layers_(hp_.layers),
        context_(ggml_init({kTensors * ggml_tensor_overhead() +
                                ggml_graph_overhead_custom(kTensors, false),
                            nullptr, /*no_alloc=*/true})),
        graph_(ggml_new_graph_custom(context_, kTensors, false)) {
    GraphSetting setting;
    setting.hp = &hp_;
    setting.weights = weights_.get();
    setting.layers = &layers_;
    setting.matmul = &MatMulFormsOf(KernelForm::kScalar);
    setting.rows = &rows_;
    GraphBuilder builder(setting, shape, context_, graph_);
    architecture_->BuildGraph(&builder);
  }
  ~BuiltGraph() { ggml_free(context_); }

  std::vector<const ggml_tensor*> Nodes() const {
    std::vector<const ggml_tensor*> nodes;
    for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i) {
      nodes.push_back(ggml_graph_node(graph_, i));
    }
    return nodes;
  }
  uint32_t layers() const { return hp_.layers; }

 private:
  const std::unique_ptr<MappedFile> file_;
  const std::unique_ptr<gguf::GgufHeader> header_;
  const Architecture* const architecture_;
  const Hyperparameters hp_;
  const std::unique_ptr<Weights> weights_;
  const RowParameters rows_;
  std::vector<AttentionLayer> layers_;
  ggml_context* const context_;
  ggml_cgraph* const graph_;
};

// Names for other memory; nothing is computed.
bool IsView(const ggml_tensor* node) {
  return node->op == GGML_OP_NONE || node->op == GGML_OP_RESHAPE ||
         node->op == GGML_OP_VIEW;
}

class Graph : public testing::TestWithParam<std::string> {};

TEST_P(Graph, LeavesGgmlNothingToCompute) {
  const std::string path =
      GetParam() == "demo" ? BATON_DEMO_MODEL
                           : BATON_MODELS_DIR "/tiny-" + GetParam() + ".gguf";
  for (const StepShape& shape :
       {StepShape{1, 1}, StepShape{70, 3}, StepShape{5, 0}}) {
    const BuiltGraph graph(path, shape);
    size_t kernels = 0;
    for (const ggml_tensor* node : graph.Nodes()) {
      if (IsView(node)) continue;
      ++kernels;
      EXPECT_EQ(node->op, GGML_OP_CUSTOM) << ggml_op_name(node->op);
    }
    EXPECT_GT(kernels, 4 * graph.layers());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Graph,
    testing::Values("demo", "llama-F32", "llama-F16", "llama-Q4_K",
                    "llama-Q6_K", "llama-Q8_0", "qwen2-F32", "qwen2-F16",
                    "qwen2-Q4_K", "qwen2-Q6_K", "qwen2-Q8_0", "qwen3-F32",
                    "qwen3-F16", "qwen3-Q4_K", "qwen3-Q6_K", "qwen3-Q8_0"),
    [](const auto& info) {
      std::string name = info.param;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace baton::worker
