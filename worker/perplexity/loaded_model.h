// A model file loaded to run one sequence at a time in this process: the
// mapped model, KV blocks for one context, and the forward pass.
#ifndef BATON_WORKER_PERPLEXITY_LOADED_MODEL_H_
#define BATON_WORKER_PERPLEXITY_LOADED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/cache/block_pool.h"
#include "worker/model/model.h"
#include "worker/perplexity/chunk_scorer.h"

namespace baton::worker {

// Thread-compatible.
class LoadedModel {
 public:
  struct Options {
    std::string path;
    KvType kv_type = KvType::kF16;
    uint32_t context = 512;  // tokens that the blocks hold
    int threads = 1;         // at least 1
    // Called with 0..1 while the file is read.
    std::function<void(double)> progress;
  };

  // Errors: those of Model::Load; kResourceExhausted (the blocks).
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(
      const Options& options);

  const ModelDescription& description() const { return model_->description(); }
  // Valid as long as this.
  ChunkRunner runner() const { return {forward_.get(), block_table_}; }

 private:
  LoadedModel() = default;

  // In order: each uses those before it.
  std::unique_ptr<Model> model_;
  std::unique_ptr<BlockPool> pool_;
  std::vector<BlockRef> blocks_;
  std::vector<uint32_t> block_table_;
  std::unique_ptr<Forward> forward_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PERPLEXITY_LOADED_MODEL_H_
