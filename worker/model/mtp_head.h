// The MTP (multi-token prediction) block of a model: one more decoder layer
// that, from a token and the model's hidden row before it, proposes the token
// after. Comes in the model's own file or in one beside it; embedding and
// output matrix are the model's.
//
// A file may name a draft vocabulary, the token ids that drafts choose from
// ("baton.mtp.draft_vocabulary", ascending): fewer rows of the output matrix
// to read. Verification always uses the whole vocabulary.
#ifndef BATON_WORKER_MODEL_MTP_HEAD_H_
#define BATON_WORKER_MODEL_MTP_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ggml.h"
#include "kvstore/block/block_key.h"
#include "services/base/ids.h"
#include "services/gguf/gguf_header.h"
#include "worker/graph/architecture.h"
#include "worker/graph/mapped_file.h"
#include "worker/graph/weights.h"

namespace baton::worker {

// Immutable; thread-safe.
class MtpHead {
 public:
  // The model that it drafts for.
  struct Target {
    const Architecture* architecture = nullptr;
    Hyperparameters hp;
    const gguf::GgufHeader* header = nullptr;
    const Weights* weights = nullptr;  // outlive the head
    kvstore::Digest digest;            // of the file
  };

  // The block in the model's own file, whose tensors have been checked.
  // Errors: kInvalidArgument (draft vocabulary).
  static absl::StatusOr<std::unique_ptr<MtpHead>> FromModel(
      const Target& target);
  // A file that holds only the block, made for the model with the digest in
  // "baton.mtp.target_sha256". Errors: kNotFound, kInvalidArgument (made for
  // another model; other sizes), kUnimplemented; they name the path.
  static absl::StatusOr<std::unique_ptr<MtpHead>> FromFile(
      const std::string& path, const std::string& digest_cache_directory,
      const Target& target);
  ~MtpHead();
  MtpHead(const MtpHead&) = delete;
  MtpHead& operator=(const MtpHead&) = delete;

  const Weights& weights() const { return *weights_; }
  // [embedding, draft vocabulary].
  ggml_tensor* output() const { return output_; }
  // Of row `index` of the output.
  TokenId token(uint32_t index) const {
    return vocabulary_.empty() ? static_cast<TokenId>(index)
                               : vocabulary_[index];
  }
  // Whatever its rows depend on beside the model.
  const kvstore::Digest& digest() const { return digest_; }

 private:
  MtpHead() = default;
  static absl::StatusOr<std::unique_ptr<MtpHead>> Load(
      const std::string& path, const std::string& digest_cache_directory,
      const Target& target);
  // Reads the draft vocabulary and gathers its rows of the output matrix.
  absl::Status TakeVocabulary(const gguf::GgufHeader& header,
                              const Target& target);

  std::unique_ptr<MappedFile> file_;  // null: in the model's file
  std::unique_ptr<Weights> own_weights_;
  const Weights* weights_ = nullptr;
  kvstore::Digest digest_;
  std::vector<TokenId> vocabulary_;  // empty = all
  ggml_context* context_ = nullptr;  // of output_, if it was gathered
  ggml_tensor* output_ = nullptr;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_MTP_HEAD_H_
