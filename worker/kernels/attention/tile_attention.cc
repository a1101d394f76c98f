#include "worker/kernels/attention/tile_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baton::worker {

void MergeState(const AttentionForms& forms, size_t dim,
                const QueryState& other, const QueryState& state) {
  if (*other.sum == 0) return;
  // The softmax of two keys: what either side must be multiplied with.
  alignas(64) float weights[kBlockTokens] = {*state.maximum, *other.maximum};
  float maximum = -std::numeric_limits<float>::infinity(), ignored = 0;
  forms.soften(weights, 2, &maximum, &ignored);
  const float ours = weights[0], theirs = weights[1];
  for (size_t d = 0; d < dim; ++d) {
    state.acc[d] = state.acc[d] * ours + other.acc[d] * theirs;
  }
  *state.sum = *state.sum * ours + *other.sum * theirs;
  *state.maximum = maximum;
}

TileAttention::TileAttention(const CacheShape& shape,
                             const AttentionForms* forms)
    : shape_(shape), forms_(forms) {
  const size_t dim = shape.head_dim;
  const size_t queries =
      size_t{AttentionTiles::RowsOf(shape)} * (shape.heads / shape.kv_heads);
  turned_.resize(kBlockTokens * dim);
  panels_.resize(kBlockTokens * (dim + kPanelColumns));
  weights_.resize(queries * kBlockTokens);
  factors_.resize(queries);
  for (auto* states : {&q_, &acc_, &whole_acc_}) states->resize(queries * dim);
  for (auto* numbers : {&maxima_, &sums_, &whole_maxima_, &whole_sums_}) {
    numbers->resize(queries);
  }
}

void TileAttention::Begin(const AttentionTile& tile, uint32_t layer,
                          uint32_t first_head, uint32_t heads, const float* q,
                          size_t q_stride) {
  tile_ = &tile;
  layer_ = layer;
  heads_ = heads;
  kv_head_ = first_head / (shape_.heads / shape_.kv_heads);
  const size_t dim = shape_.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (size_t i = 0; i < queries(); ++i) {
    const float* from = q + (tile.first_row + i / heads) * q_stride +
                        (first_head + i % heads) * dim;
    float* to = q_.data() + i * dim;
    for (size_t d = 0; d < dim; ++d) to[d] = from[d] * scale;
  }
}

void TileAttention::RunSegment(uint32_t segment) {
  std::fill_n(acc_.begin(), queries() * shape_.head_dim, 0.0f);
  std::fill_n(sums_.begin(), queries(), 0.0f);
  std::fill_n(maxima_.begin(), queries(),
              -std::numeric_limits<float>::infinity());
  const uint32_t blocks =
      (tile_->start_position + tile_->rows + kBlockTokens - 1) / kBlockTokens;
  constexpr uint32_t kSegmentBlocks = kSegmentTokens / kBlockTokens;
  const uint32_t first = segment * kSegmentBlocks;
  const uint32_t end = std::min(blocks, first + kSegmentBlocks);
  for (uint32_t b = first; b < end; ++b) {
    AttendBlock(b, Rows(b), Rows(std::min(b + 1, blocks - 1)));
  }
}

void TileAttention::RunAll() {
  RunSegment(0);
  for (uint32_t segment = 1; segment < tile_->segments; ++segment) {
    // The states so far make room for those of the segment.
    if (segment == 1) {
      acc_.swap(whole_acc_);
      maxima_.swap(whole_maxima_);
      sums_.swap(whole_sums_);
    }
    RunSegment(segment);
    for (size_t i = 0; i < queries(); ++i) {
      MergeState(*forms_, shape_.head_dim, State(i),
                 {whole_acc_.data() + i * shape_.head_dim, &whole_maxima_[i],
                  &whole_sums_[i]});
    }
  }
  if (tile_->segments > 1) {
    acc_.swap(whole_acc_);
    maxima_.swap(whole_maxima_);
    sums_.swap(whole_sums_);
  }
}

QueryState TileAttention::State(size_t query) {
  return {acc_.data() + query * shape_.head_dim, &maxima_[query],
          &sums_[query]};
}

TileAttention::BlockRows TileAttention::Rows(uint32_t block_index) const {
  const uint32_t block = tile_->blocks[block_index];
  return {shape_.Rows(block, layer_, 0, kv_head_),
          shape_.Rows(block, layer_, 1, kv_head_)};
}

void TileAttention::AttendBlock(uint32_t block_index, BlockRows rows,
                                BlockRows next) {
  const size_t dim = shape_.head_dim;
  const uint32_t start = block_index * kBlockTokens;
  const auto keys_of = [&](uint32_t row) -> uint32_t {
    const uint32_t after = tile_->start_position + row + 1;
    return after <= start ? 0 : std::min(kBlockTokens, after - start);
  };
  const uint32_t most = keys_of(tile_->rows - 1);
  uint32_t row = 0;  // rows before see nothing of the block
  while (keys_of(row) == 0) ++row;
  const size_t first = static_cast<size_t>(row) * heads_;
  Score(rows.k, next.k, most, first, queries() - first);
  for (size_t i = first; i < queries(); ++i) {
    factors_[i] = forms_->soften(weights_.data() + i * kBlockTokens,
                                 keys_of(static_cast<uint32_t>(i / heads_)),
                                 &maxima_[i], &sums_[i]);
  }
  const bool few = shape_.type == KvType::kF16 && queries() - first <= kFewRows;
  const auto* half = reinterpret_cast<const uint16_t*>(rows.v);
  const auto* next_half = reinterpret_cast<const uint16_t*>(next.v);
  if (shape_.type == KvType::kF32) {
    forms_->pack(reinterpret_cast<const float*>(rows.v),
                 reinterpret_cast<const float*>(next.v), dim, most, dim,
                 panels_.data());
  } else if (!few) {
    forms_->pack_half(half, next_half, dim, most, dim, panels_.data());
  }
  // Rows that see the same keys go together.
  while (row < tile_->rows) {
    const uint32_t keys = keys_of(row);
    uint32_t after = row + 1;
    while (after < tile_->rows && keys_of(after) == keys) ++after;
    const size_t i = static_cast<size_t>(row) * heads_;
    const AttentionProduct product = {
        .a = weights_.data() + i * kBlockTokens,
        .a_stride = kBlockTokens,
        .c = acc_.data() + i * dim,
        .c_stride = dim,
        .factors = factors_.data() + i,
        .rows = static_cast<size_t>(after - row) * heads_,
        .columns = dim,
        .inner = keys};
    if (few) {
      forms_->multiply_few(product, half, next_half, dim);
    } else {
      forms_->multiply(product, panels_.data(), most);
    }
    row = after;
  }
}

void TileAttention::Score(const std::byte* k, const std::byte* next,
                          uint32_t keys, size_t first, size_t queries) {
  const size_t dim = shape_.head_dim;
  // Sixteen at a time; what lies behind the last key is dropped.
  const size_t columns = (keys + 15) / 16 * 16;
  const AttentionProduct product = {.a = q_.data() + first * dim,
                                    .a_stride = dim,
                                    .c = weights_.data() + first * kBlockTokens,
                                    .c_stride = kBlockTokens,
                                    .factors = nullptr,
                                    .rows = queries,
                                    .columns = columns,
                                    .inner = dim};
  float* panels = panels_.data();
  if (shape_.type == KvType::kF32) {
    float* turned = turned_.data();
    forms_->transpose(reinterpret_cast<const float*>(k), dim, keys, turned);
    forms_->pack(turned, reinterpret_cast<const float*>(next), kBlockTokens,
                 dim, columns, panels);
    forms_->multiply(product, panels, dim);
    return;
  }
  auto* turned = reinterpret_cast<uint16_t*>(turned_.data());
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

}  // namespace baton::worker
