// What the products with AVX-512 registers have in common, whichever
// instructions multiply: a tile's weights, and the float operations of a block.
// See avx512_lanes.h for who may include this.
#ifndef BATON_WORKER_KERNELS_MATMUL_AVX512_TILE_H_
#define BATON_WORKER_KERNELS_MATMUL_AVX512_TILE_H_

#include "worker/kernels/matmul/avx512_values.h"
#include "worker/kernels/matmul/unaligned.h"

namespace baton::worker {
namespace {

template <typename Format>
constexpr bool kSigned = Format::kMinimum == Minimum::kNone;
template <typename Format>
constexpr size_t kSubBlockGroups =
    Format::kSubBlocks == 0 ? Format::kValues / 4
                            : Format::kValues / 4 / Format::kSubBlocks;

// Sixteen rows are read side by side, which the hardware's prefetchers do not
// follow; the next sixteen lie behind them in the file. They go to the second
// level: a tile of long rows is larger than the first.
template <size_t kBytes>
BATON_INLINE void Prefetch(const uint8_t* at) {
  for (size_t i = 0; i < kBytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T1);
  }
}

template <typename Format>
void Unpack(const TileTask& task, size_t first, size_t count,
            typename Format::Panel* panel) {
  constexpr size_t kBytes = sizeof(typename Format::Block);
  const uint8_t* ahead = task.weights + kTileOutputs * task.weight_stride;
  Rows rows;
  for (size_t i = 0; i < kTileOutputs; ++i) {
    const size_t output = i < task.outputs ? i : task.outputs - 1;
    rows.at[i] = task.weights + output * task.weight_stride + first * kBytes;
  }
  for (size_t block = 0; block < count; ++block) {
    Prefetch<kTileOutputs * kBytes>(ahead +
                                    kTileOutputs * kBytes * (first + block));
    Format::Unpack(rows, &panel[block]);
    for (size_t i = 0; i < kTileOutputs; ++i) rows.at[i] += kBytes;
  }
}

// Where a row's numbers of float block `first` and those behind it lie; see
// weight_format.h.
struct RowScales {
  const uint8_t* d;
  const uint8_t* sums;  // s of small blocks, int16 sums of large ones
};
template <typename Format>
BATON_INLINE RowScales ScalesOf(const TileTask& task, size_t row,
                                size_t first) {
  const size_t blocks = task.columns / Format::kValues;
  const uint8_t* d =
      task.activations + row * task.activation_stride + task.columns;
  return {d + 4 * first,
          d + 4 * blocks + (Format::kSubBlocks == 0 ? 4 : 16) * first};
}

// What follows the integer sums: the float operations.
template <typename Format>
BATON_INLINE __m512 AddBlock(__m512i whole, const typename Format::Panel& w,
                             const RowScales& row, size_t block, __m512 sum) {
  const __m512 scale = _mm512_set1_ps(LoadFloat(row.d + 4 * block));
  sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole),
                        _mm512_mul_ps(_mm512_load_ps(w.d), scale), sum);
  if constexpr (Format::kMinimum == Minimum::kFloat) {
    sum = _mm512_fmadd_ps(_mm512_load_ps(w.least),
                          _mm512_set1_ps(LoadFloat(row.sums + 4 * block)), sum);
  }
  if constexpr (Format::kMinimum == Minimum::kIntegers) {
    __m512i least = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      least = _mm512_dpwssd_epi32(
          least, LoadLanes(w.minima[i]),
          _mm512_set1_epi32(LoadInt(row.sums + 16 * block + 4 * i)));
    }
    sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(least),
                           _mm512_mul_ps(_mm512_load_ps(w.least), scale), sum);
  }
  return sum;
}

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_AVX512_TILE_H_
