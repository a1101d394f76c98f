#include "worker/perplexity/loaded_model.h"

#include "services/base/status_macros.h"

namespace baton::worker {

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(
    const Options& options) {
  std::unique_ptr<LoadedModel> loaded(new LoadedModel());
  Model::Options model;
  model.path = options.path;
  model.kv_type = options.kv_type;
  model.progress = options.progress;
  BATON_ASSIGN_OR_RETURN(loaded->model_, Model::Load(model));
  BlockPool::Options pool;
  pool.block_bytes = loaded->model_->layout().groups[0].block_bytes;
  pool.blocks = (options.context + pool.block_tokens - 1) / pool.block_tokens;
  BATON_ASSIGN_OR_RETURN(loaded->pool_, BlockPool::Create(pool));
  BATON_ASSIGN_OR_RETURN(loaded->blocks_,
                         loaded->pool_->TryAllocate(pool.blocks));
  for (const BlockRef& block : loaded->blocks_) {
    loaded->block_table_.push_back(block.index());
  }
  BATON_ASSIGN_OR_RETURN(
      loaded->forward_,
      loaded->model_->CreateForward(loaded->pool_.get(), options.threads));
  return loaded;
}

}  // namespace baton::worker
