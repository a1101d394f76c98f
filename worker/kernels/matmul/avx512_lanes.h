// Sixteen weight rows side by side in AVX-512 registers: a lane an output. Only
// for sources that are compiled with AVX-512 F, BW, DQ, VL and VNNI: everything
// is local to its source, so that no other one can get a copy that its
// processor cannot run.
#ifndef BATON_WORKER_KERNELS_MATMUL_AVX512_LANES_H_
#define BATON_WORKER_KERNELS_MATMUL_AVX512_LANES_H_

#include "worker/kernels/avx512_intrinsics.h"
#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {
namespace {

#define BATON_INLINE inline __attribute__((always_inline))

// Four values of each output.
using Group = uint8_t[kTileOutputs][4];

// A float block of 16 weight rows. value = values[i] in the formats with
// minima, where it is unsigned; in the others it is signed, and the kernel
// multiplies it with the activation plus 128, so that `start` = -128 * (sum of
// scale * value) belongs to the block's sum.
template <size_t kValues, size_t kSubBlocks>
struct Unpacked {
  alignas(64) Group values[kValues / 4];
  alignas(64) int32_t scales[kSubBlocks == 0 ? 1 : kSubBlocks][kTileOutputs];
  // Of sub-blocks 2i and 2i + 1.
  alignas(64) int16_t minima[4][kTileOutputs][2];
  alignas(64) int32_t start[kTileOutputs];
  alignas(64) float d[kTileOutputs];
  alignas(64) float least[kTileOutputs];
};

// The float blocks of a tile: at[i] is output i's.
struct Rows {
  const uint8_t* at[kTileOutputs];
};

BATON_INLINE __m512i LoadLanes(const void* at) { return _mm512_load_si512(at); }
BATON_INLINE void StoreLanes(void* at, __m512i lanes) {
  _mm512_store_si512(at, lanes);
}
BATON_INLINE __m128i LoadQuarter(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
BATON_INLINE __m512i Bytes(int value) {
  return _mm512_set1_epi8(static_cast<char>(value));
}
BATON_INLINE __m512i Ints(int value) { return _mm512_set1_epi32(value); }

// Bytes [offset, offset + 16) of each row: lane i of out[k] has bytes 4k to
// 4k + 3 of row i.
BATON_INLINE void Columns(const Rows& rows, size_t offset, __m512i* out) {
  __m512i in[4];
  for (size_t i = 0; i < 4; ++i) {
    in[i] = _mm512_castsi128_si512(LoadQuarter(rows.at[i] + offset));
    in[i] = _mm512_inserti32x4(in[i], LoadQuarter(rows.at[i + 4] + offset), 1);
    in[i] = _mm512_inserti32x4(in[i], LoadQuarter(rows.at[i + 8] + offset), 2);
    in[i] = _mm512_inserti32x4(in[i], LoadQuarter(rows.at[i + 12] + offset), 3);
  }
  const __m512i a = _mm512_unpacklo_epi32(in[0], in[1]);
  const __m512i b = _mm512_unpackhi_epi32(in[0], in[1]);
  const __m512i c = _mm512_unpacklo_epi32(in[2], in[3]);
  const __m512i d = _mm512_unpackhi_epi32(in[2], in[3]);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}

// The half-precision numbers in the lanes' low 16 bits.
BATON_INLINE void StoreHalves(__m512i lanes, float* out) {
  _mm512_store_ps(out, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(lanes)));
}

BATON_INLINE __m512i LowNibbles(__m512i packed) {
  return _mm512_and_si512(packed, Bytes(15));
}
BATON_INLINE __m512i HighNibbles(__m512i packed) {
  return _mm512_and_si512(_mm512_srli_epi16(packed, 4), Bytes(15));
}
// Calls store(group, nibbles) for 16 bytes of each row, which hold 32 values,
// low nibbles first.
template <typename Store>
BATON_INLINE void Nibbles(const Rows& rows, size_t offset, Store store) {
  __m512i packed[4];
  Columns(rows, offset, packed);
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    store(i, LowNibbles(packed[i]));
    store(i + 4, HighNibbles(packed[i]));
  }
}
// Which values of a group have their fifth bit set: bits 4 * group + 0..3 of
// each lane.
BATON_INLINE __mmask64 FifthBits(__m512i bits, size_t group) {
  const int byte = static_cast<int>(group / 2) * 0x01010101;
  const __m512i spread = _mm512_shuffle_epi8(
      bits, _mm512_set4_epi32(0x0c0c0c0c + byte, 0x08080808 + byte,
                              0x04040404 + byte, byte));
  return _mm512_test_epi8_mask(
      spread,
      Ints(group % 2 == 0 ? 0x08040201 : static_cast<int>(0x80402010u)));
}
BATON_INLINE __m512i Iq4(__m512i nibbles) {
  const __m512i table = _mm512_broadcast_i32x4(
      LoadQuarter(reinterpret_cast<const uint8_t*>(kIq4Values)));
  return _mm512_shuffle_epi8(table, nibbles);
}
// The eight pairs of a K format, packed in three lanes' vectors.
template <typename Panel>
BATON_INLINE void SixBitPairs(const __m512i* packed, Panel* out) {
  __m512i low = packed[0], least = packed[1], high = packed[2];
  __m512i minima[8];
#pragma GCC unroll 4
  for (size_t j = 0; j < 4; ++j) {
    StoreLanes(out->scales[j], _mm512_and_si512(low, Ints(63)));
    StoreLanes(
        out->scales[j + 4],
        _mm512_or_si512(_mm512_and_si512(high, Ints(15)),
                        _mm512_and_si512(_mm512_srli_epi32(low, 2), Ints(48))));
    minima[j] = _mm512_and_si512(least, Ints(63));
    minima[j + 4] = _mm512_or_si512(
        _mm512_and_si512(_mm512_srli_epi32(high, 4), Ints(15)),
        _mm512_and_si512(_mm512_srli_epi32(least, 2), Ints(48)));
    low = _mm512_srli_epi32(low, 8);
    least = _mm512_srli_epi32(least, 8);
    high = _mm512_srli_epi32(high, 8);
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    StoreLanes(out->minima[i],
               _mm512_or_si512(minima[2 * i],
                               _mm512_slli_epi32(minima[2 * i + 1], 16)));
  }
}

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_AVX512_LANES_H_
