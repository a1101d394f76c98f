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
  uint32_t layers = 0;
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
  // Every tensor a file may have; others are refused, since leaving one out
  // of the computation would silently give wrong results.
  virtual std::vector<TensorSpec> Tensors(const Hyperparameters& hp) const = 0;
  // Tokens to logits. Called on the device thread for each new step shape.
  virtual void BuildGraph(GraphBuilder* graph) const = 0;
};

// The keys that all dense decoders share: <name>.block_count,
// embedding_length, feed_forward_length, attention.head_count and so on, with
// checks that keep ggml and our kernels from seeing a shape they refuse.
absl::StatusOr<Hyperparameters> ReadDenseHyperparameters(
    const gguf::GgufHeader& header, absl::string_view name, RopePairs pairs);

// token_embd, output_norm and output (optional: tied to token_embd), then for
// each layer the norms, projections and gated feed-forward network.
std::vector<TensorSpec> DenseTensors(const Hyperparameters& hp);

// "blk.<layer>.<what>".
std::string LayerTensor(uint32_t layer, absl::string_view what);

// All of `hp` as text, for the cache layout's fingerprint.
std::string HyperparametersText(const Hyperparameters& hp);

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_ARCHITECTURE_H_
