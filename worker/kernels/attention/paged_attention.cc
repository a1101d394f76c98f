#include "worker/kernels/attention/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/half.h"

namespace baton::worker {
namespace {

// Query vectors that share one widening of K and V.
constexpr uint32_t kTileQueries = 48;
// What a row costs beside its positions, in positions.
constexpr uint64_t kRowCost = 32;

const AttentionForms* FormsOf(KernelForm form) {
#if defined(__x86_64__)
  if (form >= KernelForm::kAvx512) return &kAvx512Attention;
  if (form == KernelForm::kAvx2) return &kAvx2Attention;
#endif
  return &kScalarAttention;
}

uint32_t TileRows(const CacheShape& shape) {
  return std::max(1u, kTileQueries / (shape.heads / shape.kv_heads));
}

}  // namespace

// One thread's working memory; `queries` = rows of a tile times heads of a
// group.
struct PagedAttention::Scratch {
  Scratch(size_t dim, size_t queries)
      : q(queries * dim),
        turned(kBlockTokens * dim),
        panels(kBlockTokens * (dim + kPanelColumns)),
        accumulators(queries * dim),
        weights(queries * kBlockTokens),
        factors(queries),
        maxima(queries),
        sums(queries) {}

  std::vector<float> q;             // [queries][dim], scaled
  std::vector<float> turned;        // K transposed, in the cache's type
  std::vector<float> panels;        // of K transposed, then of V
  std::vector<float> accumulators;  // [queries][dim]
  std::vector<float> weights;       // [queries][64]
  std::vector<float> factors, maxima, sums;
};

PagedAttention::PagedAttention(const CacheShape& shape, int threads,
                               KernelForm form)
    : shape_(shape), form_(form), forms_(FormsOf(form)) {
  const size_t queries =
      static_cast<size_t>(TileRows(shape)) * (shape.heads / shape.kv_heads);
  for (int i = 0; i < threads; ++i) {
    scratch_.push_back(std::make_unique<Scratch>(shape.head_dim, queries));
  }
}

PagedAttention::~PagedAttention() = default;

void PagedAttention::SetStep(std::span<const RowRun> runs) {
  runs_.assign(runs.begin(), runs.end());
  tiles_.clear();
  total_cost_ = 0;
  rows_ = 0;
  const uint32_t tile_rows = TileRows(shape_);
  for (const RowRun& run : runs_) {
    rows_ += run.rows;
    for (uint32_t done = 0; done < run.rows; done += tile_rows) {
      Tile tile;
      tile.rows = std::min(tile_rows, run.rows - done);
      tile.first_row = run.first_row + done;
      tile.start_position = run.start_position + done;
      tile.blocks = run.block_table.data();
      tile.cost_before = total_cost_;
      tile.cost = tile.rows * (tile.start_position + tile.rows / 2 + kRowCost);
      total_cost_ += tile.cost;
      tiles_.push_back(tile);
    }
  }
}

std::byte* PagedAttention::Rows(uint32_t block, uint32_t layer, uint32_t value,
                                uint32_t kv_head) const {
  const uint64_t index =
      (static_cast<uint64_t>(layer) * 2 + value) * shape_.kv_heads + kv_head;
  return shape_.arena + block * shape_.block_bytes +
         index * kBlockTokens * shape_.head_dim * KvElementBytes(shape_.type);
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
               Rows(block, layer, 0, head) + offset);
      StoreRow(v + source * v_stride + head * dim,
               Rows(block, layer, 1, head) + offset);
    }
    piece = run_end;
  }
}

// Heads are given to the thread whose share of the total cost holds their
// middle. Which thread computes a head changes no bit.
void PagedAttention::Attend(uint32_t layer, const float* q, size_t q_stride,
                            float* out, size_t out_stride, int thread,
                            int threads) const {
  const uint32_t group = shape_.heads / shape_.kv_heads;
  const uint64_t total = total_cost_ * shape_.heads;
  const uint64_t begin = total * thread / threads;
  const uint64_t end = total * (thread + 1) / threads;
  const auto mine = [&](const Tile& tile, uint32_t head) {
    const uint64_t middle =
        tile.cost_before * shape_.heads + head * tile.cost + tile.cost / 2;
    return middle >= begin && middle < end;
  };
  for (const Tile& tile : tiles_) {
    if ((tile.cost_before + tile.cost) * shape_.heads <= begin) continue;
    if (tile.cost_before * shape_.heads >= end) break;
    for (uint32_t kv = 0; kv < shape_.kv_heads; ++kv) {
      uint32_t first = kv * group;
      const uint32_t group_end = first + group;
      while (first < group_end && !mine(tile, first)) ++first;
      uint32_t last = first;
      while (last < group_end && mine(tile, last)) ++last;
      if (first == last) continue;
      AttendHeads(tile, layer, first, last - first, q, q_stride, out,
                  out_stride, scratch_[thread].get());
    }
  }
}

void PagedAttention::AttendHeads(const Tile& tile, uint32_t layer,
                                 uint32_t first_head, uint32_t heads,
                                 const float* q, size_t q_stride, float* out,
                                 size_t out_stride, Scratch* scratch) const {
  const size_t dim = shape_.head_dim;
  const uint32_t kv_head = first_head / (shape_.heads / shape_.kv_heads);
  const size_t queries = static_cast<size_t>(tile.rows) * heads;
  std::fill_n(scratch->accumulators.begin(), queries * dim, 0.0f);
  std::fill_n(scratch->sums.begin(), queries, 0.0f);
  std::fill_n(scratch->maxima.begin(), queries,
              -std::numeric_limits<float>::infinity());
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (size_t i = 0; i < queries; ++i) {
    const float* from = q + (tile.first_row + i / heads) * q_stride +
                        (first_head + i % heads) * dim;
    float* to = scratch->q.data() + i * dim;
    for (size_t d = 0; d < dim; ++d) to[d] = from[d] * scale;
  }
  const uint32_t blocks =
      (tile.start_position + tile.rows + kBlockTokens - 1) / kBlockTokens;
  const auto rows = [&](uint32_t b) {
    const uint32_t block = tile.blocks[std::min(b, blocks - 1)];
    return BlockRows{Rows(block, layer, 0, kv_head),
                     Rows(block, layer, 1, kv_head)};
  };
  for (uint32_t b = 0; b < blocks; ++b) {
    AttendBlock(tile, b, heads, rows(b), rows(b + 1), scratch);
  }
  for (size_t i = 0; i < queries; ++i) {
    const float inverse = 1.0f / scratch->sums[i];
    const float* from = scratch->accumulators.data() + i * dim;
    float* to = out + (tile.first_row + i / heads) * out_stride +
                (first_head + i % heads) * dim;
    for (size_t d = 0; d < dim; ++d) to[d] = from[d] * inverse;
  }
}

void PagedAttention::AttendBlock(const Tile& tile, uint32_t block_index,
                                 uint32_t heads, BlockRows rows, BlockRows next,
                                 Scratch* scratch) const {
  const size_t dim = shape_.head_dim;
  const uint32_t start = block_index * kBlockTokens;
  const auto keys_of = [&](uint32_t row) -> uint32_t {
    const uint32_t after = tile.start_position + row + 1;
    return after <= start ? 0 : std::min(kBlockTokens, after - start);
  };
  const uint32_t most = keys_of(tile.rows - 1);
  uint32_t row = 0;  // rows before see nothing of the block
  while (keys_of(row) == 0) ++row;
  const size_t first = static_cast<size_t>(row) * heads;
  const size_t end = static_cast<size_t>(tile.rows) * heads;
  const size_t queries = end - first;
  const bool few = shape_.type == KvType::kF16 && queries <= kFewRows;
  Score(rows.k, next.k, most, first, queries, scratch);
  for (size_t i = first; i < end; ++i) {
    scratch->factors[i] = forms_->soften(
        scratch->weights.data() + i * kBlockTokens, keys_of(i / heads),
        &scratch->maxima[i], &scratch->sums[i]);
  }
  const auto* half = reinterpret_cast<const uint16_t*>(rows.v);
  const auto* next_half = reinterpret_cast<const uint16_t*>(next.v);
  if (shape_.type == KvType::kF32) {
    forms_->pack(reinterpret_cast<const float*>(rows.v),
                 reinterpret_cast<const float*>(next.v), dim, most, dim,
                 scratch->panels.data());
  } else if (!few) {
    forms_->pack_half(half, next_half, dim, most, dim, scratch->panels.data());
  }
  // Rows that see the same keys go together.
  while (row < tile.rows) {
    const uint32_t keys = keys_of(row);
    uint32_t after = row + 1;
    while (after < tile.rows && keys_of(after) == keys) ++after;
    const size_t i = static_cast<size_t>(row) * heads;
    const AttentionProduct product = {
        .a = scratch->weights.data() + i * kBlockTokens,
        .a_stride = kBlockTokens,
        .c = scratch->accumulators.data() + i * dim,
        .c_stride = dim,
        .factors = scratch->factors.data() + i,
        .rows = static_cast<size_t>(after - row) * heads,
        .columns = dim,
        .inner = keys};
    if (few) {
      forms_->multiply_few(product, half, next_half, dim);
    } else {
      forms_->multiply(product, scratch->panels.data(), most);
    }
    row = after;
  }
}

void PagedAttention::Score(const std::byte* k, const std::byte* next,
                           uint32_t keys, size_t first, size_t queries,
                           Scratch* scratch) const {
  const size_t dim = shape_.head_dim;
  // Sixteen at a time; what lies behind the last key is dropped.
  const size_t columns = (keys + 15) / 16 * 16;
  const AttentionProduct product = {
      .a = scratch->q.data() + first * dim,
      .a_stride = dim,
      .c = scratch->weights.data() + first * kBlockTokens,
      .c_stride = kBlockTokens,
      .factors = nullptr,
      .rows = queries,
      .columns = columns,
      .inner = dim};
  float* panels = scratch->panels.data();
  if (shape_.type == KvType::kF32) {
    float* turned = scratch->turned.data();
    forms_->transpose(reinterpret_cast<const float*>(k), dim, keys, turned);
    forms_->pack(turned, reinterpret_cast<const float*>(next), kBlockTokens,
                 dim, columns, panels);
    forms_->multiply(product, panels, dim);
    return;
  }
  auto* turned = reinterpret_cast<uint16_t*>(scratch->turned.data());
  const auto* next_half = reinterpret_cast<const uint16_t*>(next);
  forms_->transpose_half(reinterpret_cast<const uint16_t*>(k), dim, keys,
                         turned);
  if (queries <= kFewRows) {
    forms_->multiply_few(product, turned, next_half, kBlockTokens);
  } else {
    forms_->pack_half(turned, next_half, kBlockTokens, dim, columns, panels);
    forms_->multiply(product, panels, dim);
  }
}

void ReferenceAttention(const CacheShape& shape, uint32_t layer,
                        std::span<const uint32_t> block_table,
                        uint32_t position, const float* q, double* out) {
  const uint32_t dim = shape.head_dim;
  const auto at = [&](uint32_t p, uint32_t value, uint32_t kv, uint32_t d) {
    const uint64_t index =
        (((static_cast<uint64_t>(layer) * 2 + value) * shape.kv_heads + kv) *
             kBlockTokens +
         p % kBlockTokens) *
            dim +
        d;
    const std::byte* block =
        shape.arena + block_table[p / kBlockTokens] * shape.block_bytes;
    return static_cast<double>(
        shape.type == KvType::kF32
            ? reinterpret_cast<const float*>(block)[index]
            : HalfToFloat(reinterpret_cast<const uint16_t*>(block)[index]));
  };
  std::vector<double> weights(position + 1);
  for (uint32_t head = 0; head < shape.heads; ++head) {
    const uint32_t kv = head / (shape.heads / shape.kv_heads);
    for (uint32_t p = 0; p <= position; ++p) {
      double dot = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        dot += q[head * dim + d] * at(p, 0, kv, d);
      }
      weights[p] = dot / std::sqrt(static_cast<double>(dim));
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (uint32_t d = 0; d < dim; ++d) {
      double value = 0;
      for (uint32_t p = 0; p <= position; ++p) {
        value += weights[p] * at(p, 1, kv, d);
      }
      out[head * dim + d] = value / sum;
    }
  }
}

}  // namespace baton::worker
