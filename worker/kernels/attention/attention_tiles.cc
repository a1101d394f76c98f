#include "worker/kernels/attention/attention_tiles.h"

#include <algorithm>

namespace baton::worker {
namespace {

// Query vectors that share one widening of K and V.
constexpr uint32_t kTileQueries = 48;
// What a row costs beside its positions, in positions.
constexpr uint64_t kRowCost = 32;
// More rows are work enough for many threads, and their results would take
// much memory.
constexpr uint32_t kMostSplitRows = 8;

// Of one head.
uint64_t SegmentCost(const AttentionTile& tile, uint32_t segment) {
  const uint64_t seen = tile.start_position + (tile.rows + 1) / 2;
  const uint64_t start = uint64_t{segment} * kSegmentTokens;
  const uint64_t here = seen <= start ? 0 : seen - start;
  return tile.rows * (std::min<uint64_t>(here, kSegmentTokens) + kRowCost);
}

}  // namespace

uint32_t AttentionTiles::RowsOf(const CacheShape& shape) {
  return std::max(1u, kTileQueries / (shape.heads / shape.kv_heads));
}

AttentionTiles::AttentionTiles(const CacheShape& shape, int threads)
    : shape_(shape), may_split_(threads > 1) {}

void AttentionTiles::Set(std::span<const RowRun> runs) {
  tiles_.clear();
  total_cost_ = 0;
  result_floats_ = 0;
  counters_ = 0;
  for (const RowRun& run : runs) {
    for (uint32_t done = 0; done < run.rows; done += RowsOf(shape_)) {
      Add(run, done);
    }
  }
}

void AttentionTiles::Add(const RowRun& run, uint32_t done) {
  AttentionTile tile;
  tile.rows = std::min(RowsOf(shape_), run.rows - done);
  tile.first_row = run.first_row + done;
  tile.start_position = run.start_position + done;
  tile.blocks = run.block_table.data();
  tile.segments =
      (tile.start_position + tile.rows + kSegmentTokens - 1) / kSegmentTokens;
  for (uint32_t i = 0; i < tile.segments; ++i) {
    tile.cost += SegmentCost(tile, i);
  }
  tile.split = may_split_ && tile.segments > 1 && tile.rows <= kMostSplitRows;
  if (tile.split) {
    tile.results = result_floats_;
    result_floats_ += size_t{tile.segments} * tile.rows * shape_.heads *
                      (shape_.head_dim + 2);
    tile.counters = counters_;
    counters_ += shape_.kv_heads;
  }
  tile.cost_before = total_cost_;
  total_cost_ += tile.cost;
  tiles_.push_back(tile);
}

// All heads of all tiles, and the segments of split ones, in one line of cost.
// A unit belongs to the thread whose stretch of the line holds its middle.
void AttentionTiles::ForEachUnit(
    int thread, int threads,
    const std::function<void(const AttentionUnit&)>& work) const {
  const uint32_t group = shape_.heads / shape_.kv_heads;
  const uint64_t total = total_cost_ * shape_.heads;
  const uint64_t begin =
      total * static_cast<uint64_t>(thread) / static_cast<uint64_t>(threads);
  const uint64_t end = total * static_cast<uint64_t>(thread + 1) /
                       static_cast<uint64_t>(threads);
  for (const AttentionTile& tile : tiles_) {
    uint64_t at = tile.cost_before * shape_.heads;
    if (at + tile.cost * shape_.heads <= begin) continue;
    if (at >= end) break;
    for (uint32_t kv = 0; kv < shape_.kv_heads; ++kv) {
      for (uint32_t s = 0; s < (tile.split ? tile.segments : 1); ++s) {
        const uint64_t cost = tile.split ? SegmentCost(tile, s) : tile.cost;
        uint32_t first = group, heads = 0;
        for (uint32_t h = 0; h < group; ++h, at += cost) {
          const uint64_t middle = at + cost / 2;
          if (middle < begin || middle >= end) continue;
          first = std::min(first, h);
          ++heads;
        }
        if (heads > 0) work({&tile, kv, kv * group + first, heads, s});
      }
    }
  }
}

}  // namespace baton::worker
