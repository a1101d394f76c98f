#include "worker/kernels/attention/paged_attention.h"

#include <algorithm>
#include <cstring>

#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/attention_tiles.h"
#include "worker/kernels/attention/tile_attention.h"

namespace baton::worker {
namespace {

const AttentionForms* FormsOf(KernelForm form) {
#if defined(__x86_64__)
  if (form >= KernelForm::kAvx512) return &kAvx512Attention;
  if (form == KernelForm::kAvx2) return &kAvx2Attention;
#endif
  return &kScalarAttention;
}

// Where the state of one query vector of a split tile lies: acc, maximum, sum;
// vectors in the order [KV head][segment][row][head of the group].
QueryState PartOf(const CacheShape& shape, const AttentionTile& tile,
                  uint32_t kv_head, uint32_t segment, uint32_t row,
                  uint32_t head, float* results) {
  const size_t group = shape.heads / shape.kv_heads;
  const size_t index =
      ((size_t{kv_head} * tile.segments + segment) * tile.rows + row) * group +
      head;
  float* at = results + tile.results + index * (shape.head_dim + 2);
  return {at, at + shape.head_dim, at + shape.head_dim + 1};
}

void WriteOut(const QueryState& state, size_t dim, float* out) {
  const float inverse = 1.0f / *state.sum;
  for (size_t d = 0; d < dim; ++d) out[d] = state.acc[d] * inverse;
}

}  // namespace

PagedAttention::PagedAttention(const CacheShape& shape, int threads,
                               KernelForm form)
    : shape_(shape),
      form_(form),
      forms_(FormsOf(form)),
      tiles_(std::make_unique<AttentionTiles>(shape, threads)) {
  for (int i = 0; i < threads; ++i) {
    per_thread_.push_back(std::make_unique<TileAttention>(shape, forms_));
  }
}

PagedAttention::~PagedAttention() = default;

void PagedAttention::SetStep(std::span<const RowRun> runs) {
  runs_.assign(runs.begin(), runs.end());
  rows_ = 0;
  for (const RowRun& run : runs_) rows_ += run.rows;
  tiles_->Set(runs_);
  if (results_.size() < tiles_->result_floats()) {
    results_.resize(tiles_->result_floats());
  }
  // All are zero between layers.
  if (counters_.size() < tiles_->counters()) {
    counters_ = std::vector<std::atomic<uint32_t>>(tiles_->counters());
  }
}

void PagedAttention::StoreRow(const float* from, std::byte* to) const {
  if (shape_.type == KvType::kF16) {
    forms_->narrow(from, reinterpret_cast<uint16_t*>(to), shape_.head_dim);
  } else {
    std::memcpy(to, from, shape_.head_dim * sizeof(float));
  }
}

void PagedAttention::Write(uint32_t layer, const float* k, size_t k_stride,
                           const float* v, size_t v_stride, int thread,
                           int threads) const {
  const uint64_t pieces = static_cast<uint64_t>(rows_) * shape_.kv_heads;
  const uint64_t begin = pieces * thread / threads;
  const uint64_t end = pieces * (thread + 1) / threads;
  const size_t dim = shape_.head_dim;
  uint64_t piece = 0;
  for (const RowRun& run : runs_) {
    const uint64_t run_end =
        piece + static_cast<uint64_t>(run.rows) * shape_.kv_heads;
    for (uint64_t i = std::max(begin, piece); i < std::min(end, run_end); ++i) {
      const uint32_t row = (i - piece) / shape_.kv_heads;
      const uint32_t head = (i - piece) % shape_.kv_heads;
      const uint32_t position = run.start_position + row;
      const uint32_t block = run.block_table[position / kBlockTokens];
      const size_t offset =
          position % kBlockTokens * dim * KvElementBytes(shape_.type);
      const size_t source = run.first_row + row;
      StoreRow(k + source * k_stride + head * dim,
               shape_.Rows(block, layer, 0, head) + offset);
      StoreRow(v + source * v_stride + head * dim,
               shape_.Rows(block, layer, 1, head) + offset);
    }
    piece = run_end;
  }
}

void PagedAttention::Attend(uint32_t layer, const float* q, size_t q_stride,
                            float* out, size_t out_stride, int thread,
                            int threads) {
  const size_t dim = shape_.head_dim;
  TileAttention& attention = *per_thread_[static_cast<size_t>(thread)];
  tiles_->ForEachUnit(thread, threads, [&](const AttentionUnit& unit) {
    const AttentionTile& tile = *unit.tile;
    attention.Begin(tile, layer, unit.first_head, unit.heads, q, q_stride);
    if (tile.split) {
      attention.RunSegment(unit.segment);
      KeepPart(unit, &attention);
      FinishTile(unit, out, out_stride);
      return;
    }
    attention.RunAll();
    for (size_t i = 0; i < size_t{tile.rows} * unit.heads; ++i) {
      WriteOut(attention.State(i), dim,
               out + (tile.first_row + i / unit.heads) * out_stride +
                   (unit.first_head + i % unit.heads) * dim);
    }
  });
}

void PagedAttention::KeepPart(const AttentionUnit& unit,
                              TileAttention* attention) {
  const uint32_t group = shape_.heads / shape_.kv_heads;
  for (uint32_t row = 0; row < unit.tile->rows; ++row) {
    for (uint32_t h = 0; h < unit.heads; ++h) {
      const QueryState from = attention->State(size_t{row} * unit.heads + h);
      const QueryState to =
          PartOf(shape_, *unit.tile, unit.kv_head, unit.segment, row,
                 unit.first_head % group + h, results_.data());
      std::copy_n(from.acc, shape_.head_dim, to.acc);
      *to.maximum = *from.maximum;
      *to.sum = *from.sum;
    }
  }
}

// Whichever thread brings the last part of a KV head merges them, in ascending
// order like TileAttention::RunAll.
void PagedAttention::FinishTile(const AttentionUnit& unit, float* out,
                                size_t out_stride) {
  const AttentionTile& tile = *unit.tile;
  const uint32_t group = shape_.heads / shape_.kv_heads;
  std::atomic<uint32_t>& counter = counters_[tile.counters + unit.kv_head];
  const uint32_t parts =
      counter.fetch_add(unit.heads, std::memory_order_acq_rel) + unit.heads;
  if (parts < group * tile.segments) return;
  counter.store(0, std::memory_order_relaxed);  // for the next layer
  for (uint32_t row = 0; row < tile.rows; ++row) {
    for (uint32_t h = 0; h < group; ++h) {
      const auto part = [&](uint32_t segment) {
        return PartOf(shape_, tile, unit.kv_head, segment, row, h,
                      results_.data());
      };
      for (uint32_t segment = 1; segment < tile.segments; ++segment) {
        MergeState(*forms_, shape_.head_dim, part(segment), part(0));
      }
      WriteOut(part(0), shape_.head_dim,
               out + (tile.first_row + row) * out_stride +
                   (size_t{unit.kv_head} * group + h) * shape_.head_dim);
    }
  }
}

}  // namespace baton::worker
