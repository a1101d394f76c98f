// The model's tensors, placed on the mapped file.
#ifndef BATON_WORKER_GRAPH_WEIGHTS_H_
#define BATON_WORKER_GRAPH_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "services/gguf/gguf_header.h"
#include "worker/graph/architecture.h"
#include "worker/graph/mapped_file.h"

namespace baton::worker {

// Ok if the file has every required tensor in the right shape and a supported
// type, and no tensor beside them. Errors: kInvalidArgument, kUnimplemented
// (type or extra tensor), naming the tensor.
absl::Status CheckTensors(const gguf::GgufHeader& header,
                          const std::vector<TensorSpec>& specs);

// Immutable after Create; thread-safe.
class Weights {
 public:
  // The header's tensors have passed CheckTensors. `file` must outlive this.
  static absl::StatusOr<std::unique_ptr<Weights>> Create(
      const gguf::GgufHeader& header, const MappedFile& file);
  ~Weights();
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  // nullptr if the model lacks it.
  ggml_tensor* Find(absl::string_view name) const;
  // For tensors that CheckTensors has required.
  ggml_tensor* Get(absl::string_view name) const;

 private:
  Weights() = default;

  ggml_context* context_ = nullptr;
  ggml_backend_buffer_t buffer_ = nullptr;
  absl::flat_hash_map<std::string, ggml_tensor*> by_name_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_WEIGHTS_H_
