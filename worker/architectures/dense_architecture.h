// What the dense decoders share: pre-norm layers of attention and a gated
// feed-forward network, and an MTP block that is one more such layer. A family
// says how its keys, values and queries come about.
#ifndef BATON_WORKER_ARCHITECTURES_DENSE_ARCHITECTURE_H_
#define BATON_WORKER_ARCHITECTURES_DENSE_ARCHITECTURE_H_

#include <cstdint>
#include <vector>

#include "worker/graph/architecture.h"
#include "worker/graph/graph_builder.h"

namespace baton::worker {

class DenseArchitecture : public Architecture {
 public:
  std::vector<TensorSpec> Tensors(const Hyperparameters& hp) const final;
  std::vector<TensorSpec> DraftTensors(const Hyperparameters& hp) const final;
  void BuildGraph(GraphBuilder* graph) const final;
  void BuildDraftGraph(GraphBuilder* graph) const final;

 private:
  // Beside OuterTensors.
  virtual std::vector<TensorSpec> FamilyTensors(const Hyperparameters&) const {
    return {};
  }
  // Beside DenseLayerTensors.
  virtual std::vector<TensorSpec> FamilyLayerTensors(const Hyperparameters& hp,
                                                     uint32_t layer) const = 0;
  // Writes the layer's cache rows. normed: [embedding, rows].
  virtual void WriteKeysAndValues(GraphBuilder* graph, uint32_t layer,
                                  ggml_tensor* normed) const = 0;
  // [head_dim, heads, rows], turned.
  virtual ggml_tensor* Queries(GraphBuilder* graph, uint32_t layer,
                               ggml_tensor* normed) const = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_ARCHITECTURES_DENSE_ARCHITECTURE_H_
