// What Baton knows of a model family: which metadata and tensors a file of it
// must have, and how its graph is built. Adding a family is one file in
// architectures/ and one line in architecture.cc.
#ifndef BATON_WORKER_GRAPH_ARCHITECTURE_H_
#define BATON_WORKER_GRAPH_ARCHITECTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/gguf/gguf_header.h"
#include "worker/kernels/rows/rope.h"

namespace baton::worker {

class GraphBuilder;

struct RopeParameters {
  RopePairs pairs = RopePairs::kAdjacent;
  uint32_t dimensions = 0;  // leading elements of a head that turn
  float base = 10000.0f;
  float position_scale = 1.0f;  // linear scaling: 1 / factor
};

// The numbers of a dense decoder.
struct Hyperparameters {
  uint32_t layers = 0;  // of the decoder itself
  // Layers behind them that only draft (MTP): 0 or 1.
  uint32_t draft_layers = 0;
  uint32_t embedding = 0;
  uint32_t feed_forward = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;
  float norm_epsilon = 0;
  RopeParameters rope;
};

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // ggml order; one dimension = f32 vector
  bool required = true;
};

// Stateless; thread-safe.
class Architecture {
 public:
  virtual ~Architecture() = default;
  // general.architecture of its files.
  virtual absl::string_view name() const = 0;
  // Errors: kInvalidArgument and kUnimplemented, naming the key.
  virtual absl::StatusOr<Hyperparameters> ReadHyperparameters(
      const gguf::GgufHeader& header) const = 0;
  // Every tensor a file may have but those of its MTP block; others are
  // refused, since leaving one out of the computation would silently give
  // wrong results.
  virtual std::vector<TensorSpec> Tensors(const Hyperparameters& hp) const = 0;
  // Those of its MTP block, "blk.<layers>.*", in the model's file or alone.
  virtual std::vector<TensorSpec> DraftTensors(
      const Hyperparameters& hp) const = 0;
  // All of a model's file: both of these if it has an MTP block.
  std::vector<TensorSpec> FileTensors(const Hyperparameters& hp) const;
  // Tokens to logits. Called on the device thread for each new step shape. If
  // graph->drafts(), also writes the MTP block's cache rows of the step.
  virtual void BuildGraph(GraphBuilder* graph) const = 0;
  // One step of the MTP block: tokens and the hidden rows before them to draft
  // logits.
  virtual void BuildDraftGraph(GraphBuilder* graph) const = 0;
};

// The keys that all dense decoders share: <name>.block_count (less
// nextn_predict_layers), embedding_length, feed_forward_length,
// attention.head_count and so on, with checks that keep ggml and our kernels
// from seeing a shape they refuse. No token_embd, as in a file that holds only
// an MTP block: vocabulary 0.
absl::StatusOr<Hyperparameters> ReadDenseHyperparameters(
    const gguf::GgufHeader& header, absl::string_view name, RopePairs pairs);

// token_embd, output_norm and output (optional: tied to token_embd).
std::vector<TensorSpec> OuterTensors(const Hyperparameters& hp);
// Of a layer: the norms, projections and gated feed-forward network.
std::vector<TensorSpec> DenseLayerTensors(const Hyperparameters& hp,
                                          uint32_t layer);
// What an MTP layer has beside those: eh_proj and its norms.
std::vector<TensorSpec> NextnTensors(const Hyperparameters& hp, uint32_t layer);

// "blk.<layer>.<what>".
std::string LayerTensor(uint32_t layer, absl::string_view what);

// All of `hp` that target rows depend on, as text, for the cache layout's
// fingerprint.
std::string HyperparametersText(const Hyperparameters& hp);

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_ARCHITECTURE_H_
