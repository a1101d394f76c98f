#include "worker/architectures/dense_architecture.h"

#include <iterator>
#include <utility>

namespace baton::worker {
namespace {

void Append(std::vector<TensorSpec> from, std::vector<TensorSpec>* to) {
  to->insert(to->end(), std::make_move_iterator(from.begin()),
             std::make_move_iterator(from.end()));
}

ggml_tensor* AttentionNorm(GraphBuilder* graph, uint32_t layer,
                           ggml_tensor* x) {
  return graph->RmsNorm(x, LayerTensor(layer, "attn_norm.weight"));
}

}  // namespace

std::vector<TensorSpec> DenseArchitecture::Tensors(
    const Hyperparameters& hp) const {
  std::vector<TensorSpec> specs = OuterTensors(hp);
  Append(FamilyTensors(hp), &specs);
  for (uint32_t i = 0; i < hp.layers; ++i) {
    Append(DenseLayerTensors(hp, i), &specs);
    Append(FamilyLayerTensors(hp, i), &specs);
  }
  return specs;
}

std::vector<TensorSpec> DenseArchitecture::DraftTensors(
    const Hyperparameters& hp) const {
  std::vector<TensorSpec> specs = DenseLayerTensors(hp, hp.layers);
  Append(FamilyLayerTensors(hp, hp.layers), &specs);
  Append(NextnTensors(hp, hp.layers), &specs);
  return specs;
}

void DenseArchitecture::BuildGraph(GraphBuilder* graph) const {
  const uint32_t layers = graph->hp().layers;
  ggml_tensor* embedded = graph->Embed();
  ggml_tensor* x = embedded;
  for (uint32_t i = 0; i < layers; ++i) {
    ggml_tensor* normed = AttentionNorm(graph, i, x);
    WriteKeysAndValues(graph, i, normed);
    if (graph->EndsWithCache(i)) return;
    ggml_tensor* attended = graph->Attend(i, Queries(graph, i, normed));
    x = graph->EndLayer(i, x, attended);
  }
  ggml_tensor* hidden = graph->Finish(x);
  if (!graph->drafts()) return;
  ggml_tensor* input = graph->DraftInput(embedded, hidden);
  WriteKeysAndValues(graph, layers, AttentionNorm(graph, layers, input));
}

void DenseArchitecture::BuildDraftGraph(GraphBuilder* graph) const {
  const uint32_t layer = graph->hp().layers;
  ggml_tensor* x = graph->DraftInput(graph->Embed(), nullptr);
  ggml_tensor* normed = AttentionNorm(graph, layer, x);
  WriteKeysAndValues(graph, layer, normed);
  ggml_tensor* attended = graph->Attend(layer, Queries(graph, layer, normed));
  graph->FinishDraft(graph->EndLayer(layer, x, attended));
}

}  // namespace baton::worker
