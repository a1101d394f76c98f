// How 16 weight rows become a panel that every activation row is multiplied
// with: values interleaved, four of each output side by side. Only for sources
// that are compiled with AVX2, FMA and F16C; see avx2_values.h.
#ifndef BATON_WORKER_KERNELS_MATMUL_AVX2_PANEL_H_
#define BATON_WORKER_KERNELS_MATMUL_AVX2_PANEL_H_

#include "worker/kernels/matmul/avx2_values.h"

namespace baton::worker {
namespace {

constexpr size_t kHalves = 2;  // of a tile: 8 outputs each

// A float block of 16 weight rows, unpacked.
template <typename Format>
struct Unpacked {
  static constexpr size_t kSubBlocks =
      Format::kSubBlocks == 0 ? 1 : Format::kSubBlocks;
  // [group of four values][output][four values]
  alignas(32) uint8_t values[Format::kValues / 4][kTileOutputs][4];
  // Each twice, for two 16-bit lanes.
  alignas(32) int16_t scales[kSubBlocks][kTileOutputs][2];
  // Of sub-blocks 2i and 2i + 1.
  alignas(32) int16_t minima[4][kTileOutputs][2];
  alignas(32) float d[kTileOutputs];
  alignas(32) float least[kTileOutputs];
};

// [eight weight rows][four values] of one half of a tile.
BATON_INLINE void StoreGroup(__m256i group, size_t half, uint8_t (*out)[4]) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(out[8 * half]), group);
}

// Turns eight rows of 32 bytes into eight groups of [8 rows][4 bytes].
BATON_INLINE void Interleave(__m256i* rows) {
  __m256i a[8], b[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
  }
}
// Turns eight rows of 16 bytes into four groups of [8 rows][4 bytes].
BATON_INLINE void InterleaveShort(const uint8_t* const* rows, __m256i* groups) {
  __m256i pairs[4];
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm256_set_m128i(LoadHalf(rows[i + 4]), LoadHalf(rows[i]));
  }
  const __m256i a = _mm256_unpacklo_epi32(pairs[0], pairs[1]);
  const __m256i b = _mm256_unpacklo_epi32(pairs[2], pairs[3]);
  const __m256i c = _mm256_unpackhi_epi32(pairs[0], pairs[1]);
  const __m256i d = _mm256_unpackhi_epi32(pairs[2], pairs[3]);
  groups[0] = _mm256_unpacklo_epi64(a, b);
  groups[1] = _mm256_unpackhi_epi64(a, b);
  groups[2] = _mm256_unpacklo_epi64(c, d);
  groups[3] = _mm256_unpackhi_epi64(c, d);
}

// The low and the high nibbles of a group of bytes.
template <typename Format>
BATON_INLINE void StoreNibbles(__m256i packed, size_t half, uint8_t (*low)[4],
                               uint8_t (*high)[4]) {
  const __m256i mask = _mm256_set1_epi8(15);
  StoreGroup(Format::FromNibbles(_mm256_and_si256(packed, mask)), half, low);
  StoreGroup(
      Format::FromNibbles(_mm256_and_si256(_mm256_srli_epi16(packed, 4), mask)),
      half, high);
}

// The values of eight weight rows, interleaved. Nibbles are told apart after
// that, so that a byte of two is moved once.
template <typename Format>
BATON_INLINE void UnpackValues(const typename Format::Block* const* blocks,
                               size_t half, uint8_t (*out)[kTileOutputs][4]) {
  if constexpr (Format::kNibbleBytes == 16) {
#pragma GCC unroll 8
    for (size_t sub = 0; sub < Format::kValues / 32; ++sub) {
      const uint8_t* rows[8];
      for (size_t i = 0; i < 8; ++i) rows[i] = blocks[i]->quants + 16 * sub;
      __m256i groups[4];
      InterleaveShort(rows, groups);
      for (size_t i = 0; i < 4; ++i) {
        StoreNibbles<Format>(groups[i], half, out[8 * sub + i],
                             out[8 * sub + 4 + i]);
      }
    }
  } else if constexpr (Format::kNibbleBytes == 32) {
#pragma GCC unroll 4
    for (size_t pair = 0; pair < Format::kValues / 64; ++pair) {
      __m256i rows[8];
      for (size_t i = 0; i < 8; ++i) {
        rows[i] = LoadAll(blocks[i]->quants + 32 * pair);
      }
      Interleave(rows);
      for (size_t i = 0; i < 8; ++i) {
        StoreNibbles<Format>(rows[i], half, out[16 * pair + i],
                             out[16 * pair + 8 + i]);
      }
    }
  } else {
#pragma GCC unroll 8
    for (size_t sub = 0; sub < Format::kValues / 32; ++sub) {
      __m256i rows[8];
      for (size_t i = 0; i < 8; ++i) rows[i] = Format::Values(*blocks[i], sub);
      Interleave(rows);
      for (size_t i = 0; i < 8; ++i)
        StoreGroup(rows[i], half, out[8 * sub + i]);
    }
  }
}

// Rows i of bytes become columns i.
BATON_INLINE void Transpose16(__m128i* rows) {
  __m128i other[16];
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      other[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      other[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = other[i];
  }
}

// Bytes a and b of 16 outputs as pairs of 16-bit lanes.
BATON_INLINE void StorePairs(__m128i a, __m128i b, int16_t (*out)[2]) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(out[0]),
                     _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
  _mm256_store_si256(reinterpret_cast<__m256i*>(out[8]),
                     _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
}

template <typename Format>
BATON_INLINE void UnpackScales(const typename Format::Block* const* blocks,
                               Unpacked<Format>* out) {
  __m128i rows[kTileOutputs];
  for (size_t i = 0; i < kTileOutputs; ++i) {
    rows[i] = Format::Scales(*blocks[i]);
  }
  Transpose16(rows);
  for (size_t j = 0; j < Format::kSubBlocks; ++j) {
    StorePairs(rows[j], rows[j], out->scales[j]);
  }
  if constexpr (Format::kMinimum == Minimum::kIntegers) {
    for (size_t j = 0; j < 4; ++j) {
      StorePairs(rows[8 + 2 * j], rows[9 + 2 * j], out->minima[j]);
    }
  }
}

template <typename Format>
BATON_INLINE void Unpack(const TileTask& task, size_t block,
                         Unpacked<Format>* out) {
  using Block = typename Format::Block;
  const Block* blocks[kTileOutputs];
  for (size_t i = 0; i < kTileOutputs; ++i) {
    blocks[i] = reinterpret_cast<const Block*>(
                    task.weights + (i < task.outputs ? i : task.outputs - 1) *
                                       task.weight_stride) +
                block;
  }
  for (size_t half = 0; half < kHalves; ++half) {
    UnpackValues<Format>(blocks + 8 * half, half, out->values);
  }
  alignas(16) uint16_t d[kTileOutputs];
  alignas(16) uint16_t least[kTileOutputs];
  for (size_t i = 0; i < kTileOutputs; ++i) {
    d[i] = blocks[i]->d;
    if constexpr (Format::kMinimum != Minimum::kNone) {
      least[i] = Format::Least(*blocks[i]);
    }
  }
  for (size_t half = 0; half < kHalves; ++half) {
    _mm256_store_ps(out->d + 8 * half, _mm256_cvtph_ps(LoadHalf(d + 8 * half)));
    if constexpr (Format::kMinimum != Minimum::kNone) {
      _mm256_store_ps(out->least + 8 * half,
                      _mm256_cvtph_ps(LoadHalf(least + 8 * half)));
    }
  }
  if constexpr (Format::kSubBlocks > 0) UnpackScales<Format>(blocks, out);
}

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_AVX2_PANEL_H_
