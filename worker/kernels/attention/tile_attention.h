// One thread's attention of a tile: its working memory, and the loop over
// segments and blocks (the order of additions: paged_attention.h).
#ifndef BATON_WORKER_KERNELS_ATTENTION_TILE_ATTENTION_H_
#define BATON_WORKER_KERNELS_ATTENTION_TILE_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/attention_tiles.h"
#include "worker/kernels/attention/paged_attention.h"

namespace baton::worker {

// The online softmax of one query vector over some positions: values are
// acc / sum, before the division. sum is 0 where it saw no position.
struct QueryState {
  float* acc;  // [head_dim]
  float* maximum;
  float* sum;
};

// Takes `other`, of later positions, into `state`, of earlier ones.
void MergeState(const AttentionForms& forms, size_t dim,
                const QueryState& other, const QueryState& state);

class TileAttention {
 public:
  TileAttention(const CacheShape& shape, const AttentionForms* forms);

  // Takes up query heads [first_head, first_head + heads) of one KV head.
  void Begin(const AttentionTile& tile, uint32_t layer, uint32_t first_head,
             uint32_t heads, const float* q, size_t q_stride);
  // The states of all query vectors over one segment.
  void RunSegment(uint32_t segment);
  // The same over all segments.
  void RunAll();

  // After either: of query vector `row` * heads + head.
  QueryState State(size_t query);

 private:
  // K and V rows of one KV head in a block.
  struct BlockRows {
    const std::byte *k, *v;
  };
  BlockRows Rows(uint32_t block_index) const;
  // One block of 64 positions. `next`: what will be read after it.
  void AttendBlock(uint32_t block_index, BlockRows rows, BlockRows next);
  // Scores of `queries` query vectors from `first` on with `keys` K rows.
  void Score(const std::byte* k, const std::byte* next, uint32_t keys,
             size_t first, size_t queries);
  size_t queries() const { return size_t{tile_->rows} * heads_; }

  const CacheShape shape_;
  const AttentionForms* const forms_;
  const AttentionTile* tile_ = nullptr;
  uint32_t layer_ = 0;
  uint32_t kv_head_ = 0;
  uint32_t heads_ = 0;

  std::vector<float> q_;        // [queries][dim], scaled
  std::vector<float> turned_;   // K transposed, in the cache's type
  std::vector<float> panels_;   // of K transposed, then of V
  std::vector<float> weights_;  // [queries][64]
  std::vector<float> factors_;
  std::vector<float> acc_, maxima_, sums_;  // [queries][dim], [queries] twice
  std::vector<float> whole_acc_, whole_maxima_, whole_sums_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_TILE_ATTENTION_H_
