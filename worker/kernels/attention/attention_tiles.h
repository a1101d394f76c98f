// How the attention of a step is cut into tiles, and the tiles' work into
// shares of equal cost. What is cut where changes no bit of a result.
#ifndef BATON_WORKER_KERNELS_ATTENTION_ATTENTION_TILES_H_
#define BATON_WORKER_KERNELS_ATTENTION_ATTENTION_TILES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "worker/kernels/attention/paged_attention.h"

namespace baton::worker {

// Rows of one sequence that are computed together, so that K and V are
// transposed and widened once.
struct AttentionTile {
  uint32_t rows = 0;
  uint32_t first_row = 0;
  uint32_t start_position = 0;
  const uint32_t* blocks = nullptr;
  uint32_t segments = 0;  // of kSegmentTokens positions, up to its last row's
  // A tile of few rows far into its sequence: segments are work of their own,
  // whose results lie in a buffer from `results` on (in floats) and are counted
  // by counter `counters` + KV head.
  bool split = false;
  size_t results = 0;
  size_t counters = 0;
  uint64_t cost_before = 0;  // of one head, over all tiles before
  uint64_t cost = 0;         // of one head
};

// Some query heads of one KV head, over one segment of a split tile, or over
// all of any other.
struct AttentionUnit {
  const AttentionTile* tile = nullptr;
  uint32_t kv_head = 0;
  uint32_t first_head = 0;
  uint32_t heads = 0;
  uint32_t segment = 0;
};

class AttentionTiles {
 public:
  // Tiles have at most kTileQueries query vectors, or one row.
  static uint32_t RowsOf(const CacheShape& shape);

  AttentionTiles(const CacheShape& shape, int threads);
  void Set(std::span<const RowRun> runs);

  // The share of one thread. Any thread, while nothing is set.
  void ForEachUnit(int thread, int threads,
                   const std::function<void(const AttentionUnit&)>& work) const;

  // What split tiles need.
  size_t result_floats() const { return result_floats_; }
  size_t counters() const { return counters_; }

 private:
  void Add(const RowRun& run, uint32_t done);

  const CacheShape shape_;
  const bool may_split_;
  std::vector<AttentionTile> tiles_;
  uint64_t total_cost_ = 0;  // of one head
  size_t result_floats_ = 0;
  size_t counters_ = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_ATTENTION_TILES_H_
