// A model file, mapped and checked, and the forward pass over it.
#ifndef BATON_WORKER_MODEL_MODEL_H_
#define BATON_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/block/kv_layout.h"
#include "services/base/ids.h"
#include "services/gguf/gguf_header.h"
#include "worker/cache/block_pool.h"
#include "worker/kernels/attention/kv_type.h"
#include "worker/kernels/kernel_form.h"
#include "worker/model/forward.h"

namespace baton::worker {

struct ModelDescription {
  std::string name;          // general.name, or the file's name
  std::string architecture;  // llama, qwen2, qwen3
  uint32_t context_length = 0;
  uint32_t vocabulary = 0;
  std::vector<TokenId> end_tokens;
  uint64_t parameters = 0;
  uint64_t file_bytes = 0;
  std::string file_type;          // "Q4_1"
  kvstore::Digest digest;         // of the file
  kvstore::Digest header_digest;  // of the GGUF header
};

// Immutable after Load; thread-safe. Weights are mapped read-only and shared
// between processes.
class Model {
 public:
  struct Options {
    std::string path;
    // Where file digests are remembered by (device, inode, size, mtime);
    // empty = not remembered.
    std::string digest_cache_directory;
    // Of the KV cache. Part of the layout: workers share blocks only where it
    // is equal.
    KvType kv_type = KvType::kF16;
    // Use the MTP block of the file, or of a file beside it (mtp_path).
    bool mtp = false;
    std::string mtp_path;
    // The kernels to compute with. All give the same bits.
    KernelForm kernel_form = BestKernelForm();
    // Called with 0..1 while the file is digested and mapped.
    std::function<void(double)> progress;
  };

  // Errors: kNotFound, kInvalidArgument (one line naming the tensor or key),
  // kUnimplemented (architecture or type, by name). Also if an MTP block is
  // asked for and there is none, or it is for another model.
  static absl::StatusOr<std::unique_ptr<Model>> Load(const Options& options);
  virtual ~Model() = default;

  virtual const ModelDescription& description() const = 0;
  virtual const kvstore::KvLayout& layout() const = 0;
  virtual const gguf::GgufHeader& header() const = 0;
  // The header's raw bytes, for ModelService.GetHeader.
  virtual absl::string_view header_bytes() const = 0;

  // `pool` and this must outlive the result. threads >= 1.
  virtual absl::StatusOr<std::unique_ptr<Forward>> CreateForward(
      BlockPool* pool, int threads) const = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_MODEL_H_
