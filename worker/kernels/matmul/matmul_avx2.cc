// Compiled with AVX2, FMA and F16C; entered only where CPUID reports them.
//
// Lanes are outputs: eight weight rows lie in the eight 32-bit lanes of a
// register, so that the float operations of an output are those of the scalar
// form, and no sum runs across lanes but the exact integer ones.
//
// Many rows: a tile of 16 weight rows is unpacked once, interleaved four bytes
// a lane, and each activation is broadcast four bytes at a time. Few rows: the
// weights are read once in their own order, and the partial integer sums of
// eight weight rows are turned into lanes.
#include <immintrin.h>

#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {
namespace {

#define BATON_INLINE inline __attribute__((always_inline))

constexpr size_t kHalves = 2;  // of a tile: 8 outputs each

BATON_INLINE __m256i LoadAll(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}
BATON_INLINE __m128i LoadHalf(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}
BATON_INLINE int32_t LoadInt(const void* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}
BATON_INLINE float LoadFloat(const uint8_t* at) {
  float value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}
BATON_INLINE __m256i Broadcast(const int8_t* at) {
  return _mm256_set1_epi32(LoadInt(at));
}

// 16 bytes as 32 nibbles, the low ones in the low half.
BATON_INLINE __m256i Nibbles(const uint8_t* bytes) {
  const __m128i packed = LoadHalf(bytes);
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(packed, 4), packed),
                          _mm256_set1_epi8(15));
}
// Bit i of the word as 16 in byte i.
BATON_INLINE __m256i FifthBits(const uint8_t* bits) {
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(LoadInt(bits)),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                         0x0303030303030303));
  const __m256i mask =
      _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
  return _mm256_and_si256(
      _mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask),
      _mm256_set1_epi8(16));
}
BATON_INLINE __m256i Iq4(__m256i nibbles) {
  const __m128i table = LoadHalf(kIq4Values);
  return _mm256_shuffle_epi8(_mm256_set_m128i(table, table), nibbles);
}
// The eight scales, then the eight minima, of a K format.
BATON_INLINE void SixBitPairs(const uint8_t* packed, int16_t* scales,
                              int16_t* minima) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = packed[j] & 63;
    minima[j] = packed[j + 4] & 63;
    scales[j + 4] =
        static_cast<int16_t>((packed[j + 8] & 15) | (packed[j] >> 6) << 4);
    minima[j + 4] =
        static_cast<int16_t>(packed[j + 8] >> 4 | (packed[j + 4] >> 6) << 4);
  }
}

// How a format's integers are multiplied.
//   kSigned     values are signed: the activation takes the weight's sign
//   kOffset     subtracted from each value, through the activation's sum
//   kGroups     groups of four products a lane that fit in 16 bits
//   kSubBlocks  integer scales a float block; 0 = none
enum class Minimum { kNone, kFloat, kIntegers };

struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 8;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 8;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return Nibbles(block.quants);
  }
};
struct Q4_1 {
  using Block = BlockQ4_1;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 8;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kFloat;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return Nibbles(block.quants);
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.m; }
};
struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 16;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return _mm256_or_si256(Nibbles(block.quants), FifthBits(block.high));
  }
};
struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kFloat;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return _mm256_or_si256(Nibbles(block.quants), FifthBits(block.high));
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.m; }
};
struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 1;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return LoadAll(block.quants);
  }
};
struct Iq4Nl {
  using Block = BlockIq4Nl;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 1;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return Iq4(Nibbles(block.quants));
  }
};
struct Q4K {
  using Block = BlockQ4K;
  static constexpr size_t kValues = 256, kSubBlocks = 8, kGroups = 8;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kIntegers;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    const __m256i packed = LoadAll(block.quants + 32 * (sub / 2));
    return _mm256_and_si256(
        sub % 2 == 0 ? packed : _mm256_srli_epi16(packed, 4),
        _mm256_set1_epi8(15));
  }
  static BATON_INLINE void Scales(const Block& block, int16_t* scales,
                                  int16_t* minima) {
    SixBitPairs(block.scales, scales, minima);
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.dmin; }
};
struct Q5K {
  using Block = BlockQ5K;
  static constexpr size_t kValues = 256, kSubBlocks = 8, kGroups = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kIntegers;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    const __m256i packed = LoadAll(block.quants + 32 * (sub / 2));
    const __m256i low =
        _mm256_and_si256(sub % 2 == 0 ? packed : _mm256_srli_epi16(packed, 4),
                         _mm256_set1_epi8(15));
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << sub));
    const __m256i high =
        _mm256_cmpeq_epi8(_mm256_and_si256(LoadAll(block.high), bit), bit);
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(16)));
  }
  static BATON_INLINE void Scales(const Block& block, int16_t* scales,
                                  int16_t* minima) {
    SixBitPairs(block.scales, scales, minima);
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.dmin; }
};
struct Q6K {
  using Block = BlockQ6K;
  static constexpr size_t kValues = 256, kSubBlocks = 16, kGroups = 4;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    const size_t half = sub / 4, quarter = sub % 4;
    const __m256i packed = LoadAll(block.low + 64 * half + 32 * (quarter % 2));
    const __m256i low =
        _mm256_and_si256(quarter < 2 ? packed : _mm256_srli_epi16(packed, 4),
                         _mm256_set1_epi8(15));
    const __m256i pairs = LoadAll(block.high + 32 * half);
    const __m256i shifted =
        quarter < 2
            ? _mm256_slli_epi16(pairs, 4 - 2 * static_cast<int>(quarter))
            : _mm256_srli_epi16(pairs, 2 * static_cast<int>(quarter) - 4);
    const __m256i high = _mm256_and_si256(shifted, _mm256_set1_epi8(0x30));
    return _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32));
  }
  static BATON_INLINE void Scales(const Block& block, int16_t* scales,
                                  int16_t*) {
    for (int j = 0; j < 16; ++j) scales[j] = block.scales[j];
  }
};
struct Iq4Xs {
  using Block = BlockIq4Xs;
  static constexpr size_t kValues = 256, kSubBlocks = 8, kGroups = 1;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    return Iq4(Nibbles(block.quants + 16 * sub));
  }
  static BATON_INLINE void Scales(const Block& block, int16_t* scales,
                                  int16_t*) {
    for (int j = 0; j < 8; ++j) {
      scales[j] = static_cast<int16_t>(
          ((block.scales_low[j / 2] >> (4 * (j % 2)) & 15) |
           (block.scales_high >> (2 * j) & 3) << 4) -
          32);
    }
  }
};

// The products of values with activations, two a 16-bit lane. Largest
// magnitude: 128 * 127 * 2 < 2^15.
template <typename Format>
BATON_INLINE __m256i Pairs(__m256i values, __m256i activation) {
  if constexpr (Format::kSigned) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(values),
                                _mm256_sign_epi8(activation, values));
  } else {
    return _mm256_maddubs_epi16(values, activation);
  }
}

// --- A float block of 16 weight rows, unpacked

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

// Turns eight rows of 32 values into eight groups of [8 rows][4 values].
BATON_INLINE void Interleave(const __m256i* rows, size_t half,
                             uint8_t (*out)[kTileOutputs][4]) {
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
    _mm256_store_si256(reinterpret_cast<__m256i*>(out[i][8 * half]),
                       _mm256_permute2x128_si256(b[i], b[i + 4], 0x20));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out[i + 4][8 * half]),
                       _mm256_permute2x128_si256(b[i], b[i + 4], 0x31));
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
#pragma GCC unroll 8
  for (size_t sub = 0; sub < Format::kValues / 32; ++sub) {
    for (size_t half = 0; half < kHalves; ++half) {
      __m256i rows[8];
      for (size_t i = 0; i < 8; ++i) {
        rows[i] = Format::Values(*blocks[8 * half + i], sub);
      }
      Interleave(rows, half, out->values + 8 * sub);
    }
  }
  alignas(16) uint16_t d[kTileOutputs];
  alignas(16) uint16_t least[kTileOutputs];
  for (size_t i = 0; i < kTileOutputs; ++i) {
    d[i] = blocks[i]->d;
    if constexpr (Format::kMinimum != Minimum::kNone) {
      least[i] = Format::Least(*blocks[i]);
    }
    if constexpr (Format::kSubBlocks > 0) {
      int16_t scales[16], minima[8];
      Format::Scales(*blocks[i], scales, minima);
      for (size_t j = 0; j < Format::kSubBlocks; ++j) {
        out->scales[j][i][0] = out->scales[j][i][1] = scales[j];
      }
      if constexpr (Format::kMinimum == Minimum::kIntegers) {
        for (size_t j = 0; j < 8; ++j) out->minima[j / 2][i][j % 2] = minima[j];
      }
    }
  }
  for (size_t half = 0; half < kHalves; ++half) {
    _mm256_store_ps(out->d + 8 * half, _mm256_cvtph_ps(LoadHalf(d + 8 * half)));
    if constexpr (Format::kMinimum != Minimum::kNone) {
      _mm256_store_ps(out->least + 8 * half,
                      _mm256_cvtph_ps(LoadHalf(least + 8 * half)));
    }
  }
}

// The places of an activation row's parts; see weight_format.h.
struct Activation {
  const int8_t* q;
  const uint8_t* d;
  const uint8_t* sums;   // s of a small block, int16 sums of a large one
  const uint8_t* whole;  // int32 sums of small blocks
};
BATON_INLINE Activation ActivationOf(const TileTask& task, size_t row,
                                     size_t block_values) {
  const uint8_t* base = task.activations + row * task.activation_stride;
  const size_t blocks = task.columns / block_values;
  return {reinterpret_cast<const int8_t*>(base), base + task.columns,
          base + task.columns + 4 * blocks, base + task.columns + 8 * blocks};
}

// What follows the integer sums of eight outputs: the float operations.
template <typename Format>
BATON_INLINE __m256 AddBlock(__m256i whole, __m256i least_sum, __m256 d,
                             __m256 least, const Activation& activation,
                             size_t block, __m256 sum) {
  const __m256 scale = _mm256_set1_ps(LoadFloat(activation.d + 4 * block));
  sum =
      _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(d, scale), sum);
  if constexpr (Format::kMinimum == Minimum::kFloat) {
    sum = _mm256_fmadd_ps(
        least, _mm256_set1_ps(LoadFloat(activation.sums + 4 * block)), sum);
  }
  if constexpr (Format::kMinimum == Minimum::kIntegers) {
    sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(least_sum),
                           _mm256_mul_ps(least, scale), sum);
  }
  return sum;
}

// --- Many rows

// kRows activation rows times an unpacked block. Four rows and both halves keep
// eight 16-bit sums in registers.
template <typename Format, size_t kRows>
BATON_INLINE void MultiplyUnpacked(const Unpacked<Format>& w, size_t block,
                                   const Activation* activations,
                                   __m256 (*sums)[kHalves]) {
  constexpr size_t kGroupCount = Format::kValues / 4;
  constexpr size_t kSubGroups =
      Format::kSubBlocks == 0 ? kGroupCount : kGroupCount / Format::kSubBlocks;
  const __m256i ones = _mm256_set1_epi16(1);
  const int8_t* q[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    q[r] = activations[r].q + block * Format::kValues;
  }
  __m256i whole[kRows][kHalves];
#pragma GCC unroll 1
  for (size_t first = 0; first < kGroupCount; first += Format::kGroups) {
    __m256i low[kRows], high[kRows];
#pragma GCC unroll 8
    for (size_t i = 0; i < Format::kGroups; ++i) {
      const __m256i low_values = LoadAll(w.values[first + i][0]);
      const __m256i high_values = LoadAll(w.values[first + i][8]);
#pragma GCC unroll 4
      for (size_t r = 0; r < kRows; ++r) {
        const __m256i activation = Broadcast(q[r] + 4 * (first + i));
        const __m256i low_pairs = Pairs<Format>(low_values, activation);
        const __m256i high_pairs = Pairs<Format>(high_values, activation);
        low[r] = i == 0 ? low_pairs : _mm256_add_epi16(low[r], low_pairs);
        high[r] = i == 0 ? high_pairs : _mm256_add_epi16(high[r], high_pairs);
        // Keeps the compiler from loading all groups first and spilling.
        asm volatile("" : "+x"(low[r]), "+x"(high[r]));
      }
    }
    const size_t sub = first / kSubGroups;
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      const __m256i low_sum = _mm256_madd_epi16(
          low[r], Format::kSubBlocks == 0 ? ones : LoadAll(w.scales[sub][0]));
      const __m256i high_sum = _mm256_madd_epi16(
          high[r], Format::kSubBlocks == 0 ? ones : LoadAll(w.scales[sub][8]));
      whole[r][0] =
          first == 0 ? low_sum : _mm256_add_epi32(whole[r][0], low_sum);
      whole[r][1] =
          first == 0 ? high_sum : _mm256_add_epi32(whole[r][1], high_sum);
    }
  }
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t half = 0; half < kHalves; ++half) {
      __m256i least_sum = _mm256_setzero_si256();
      if constexpr (Format::kMinimum == Minimum::kIntegers) {
        for (size_t j = 0; j < 4; ++j) {
          least_sum = _mm256_add_epi32(
              least_sum, _mm256_madd_epi16(
                             LoadAll(w.minima[j][8 * half]),
                             _mm256_set1_epi32(LoadInt(activations[r].sums +
                                                       16 * block + 4 * j))));
        }
      }
      if constexpr (Format::kOffset != 0) {
        whole[r][half] = _mm256_sub_epi32(
            whole[r][half],
            _mm256_set1_epi32(Format::kOffset *
                              LoadInt(activations[r].whole + 4 * block)));
      }
      sums[r][half] = AddBlock<Format>(whole[r][half], least_sum,
                                       _mm256_load_ps(w.d + 8 * half),
                                       _mm256_load_ps(w.least + 8 * half),
                                       activations[r], block, sums[r][half]);
    }
  }
}

// A panel of unpacked blocks stays in the first-level cache.
template <typename Format>
constexpr size_t kPanelBlocks = 20480 / sizeof(Unpacked<Format>) == 0
                                    ? 1
                                    : 20480 / sizeof(Unpacked<Format>);

template <typename Format, size_t kRows>
BATON_INLINE void MultiplyPanel(const TileTask& task,
                                const Unpacked<Format>* panel, size_t first,
                                size_t count, size_t row) {
  Activation activations[kRows];
  __m256 sums[kRows][kHalves];
  float* out = task.out + row * task.out_stride;
  for (size_t r = 0; r < kRows; ++r) {
    activations[r] = ActivationOf(task, row + r, Format::kValues);
    for (size_t half = 0; half < kHalves; ++half) {
      sums[r][half] =
          first == 0 ? _mm256_setzero_ps()
                     : _mm256_loadu_ps(out + r * task.out_stride + 8 * half);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    MultiplyUnpacked<Format, kRows>(panel[i], first + i, activations, sums);
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t half = 0; half < kHalves; ++half) {
      _mm256_storeu_ps(out + r * task.out_stride + 8 * half, sums[r][half]);
    }
  }
}

template <typename Format>
void MultiplyMany(const TileTask& task) {
  Unpacked<Format> panel[kPanelBlocks<Format>];
  const size_t blocks = task.columns / Format::kValues;
  for (size_t first = 0; first < blocks; first += kPanelBlocks<Format>) {
    const size_t count = blocks - first < kPanelBlocks<Format>
                             ? blocks - first
                             : kPanelBlocks<Format>;
    for (size_t i = 0; i < count; ++i) Unpack(task, first + i, &panel[i]);
    size_t row = 0;
    for (; row + 4 <= task.rows; row += 4) {
      MultiplyPanel<Format, 4>(task, panel, first, count, row);
    }
    for (; row < task.rows; ++row) {
      MultiplyPanel<Format, 1>(task, panel, first, count, row);
    }
  }
}

// --- Few rows

// Lane i of the result: the sum of all lanes of parts[i].
BATON_INLINE __m256i SumLanes(const __m256i* parts) {
  const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]),
                                      _mm256_hadd_epi32(parts[2], parts[3]));
  const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(parts[4], parts[5]),
                                      _mm256_hadd_epi32(parts[6], parts[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

// kRows activation rows times the eight weight rows at `blocks`.
template <typename Format, size_t kRows>
BATON_INLINE void MultiplyBlocks(const typename Format::Block* const* blocks,
                                 size_t block, const Activation* activations,
                                 __m256* sums) {
  __m256i parts[kRows][8];
  __m256i least_parts[kRows][8];
  alignas(16) uint16_t d[8];
  alignas(16) uint16_t least[8] = {};
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    const auto& w = blocks[i][block];
    d[i] = w.d;
    if constexpr (Format::kMinimum != Minimum::kNone) {
      least[i] = Format::Least(w);
    }
    alignas(32) int16_t scales[16];
    alignas(16) int16_t minima[8];
    if constexpr (Format::kSubBlocks > 0) Format::Scales(w, scales, minima);
    for (size_t r = 0; r < kRows; ++r) parts[r][i] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (size_t sub = 0; sub < Format::kValues / 32; ++sub) {
      const __m256i values = Format::Values(w, sub);
      __m256i factor = _mm256_set1_epi16(1);
      if constexpr (Format::kSubBlocks == 8) {
        factor = _mm256_set1_epi16(scales[sub]);
      } else if constexpr (Format::kSubBlocks == 16) {
        factor = _mm256_set_m128i(_mm_set1_epi16(scales[2 * sub + 1]),
                                  _mm_set1_epi16(scales[2 * sub]));
      }
      for (size_t r = 0; r < kRows; ++r) {
        const __m256i activation =
            LoadAll(activations[r].q + block * Format::kValues + 32 * sub);
        parts[r][i] = _mm256_add_epi32(
            parts[r][i],
            _mm256_madd_epi16(Pairs<Format>(values, activation), factor));
      }
    }
    if constexpr (Format::kMinimum == Minimum::kIntegers) {
      for (size_t r = 0; r < kRows; ++r) {
        least_parts[r][i] = _mm256_castsi128_si256(_mm_madd_epi16(
            LoadHalf(minima), LoadHalf(activations[r].sums + 16 * block)));
        least_parts[r][i] =
            _mm256_inserti128_si256(least_parts[r][i], _mm_setzero_si128(), 1);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    __m256i whole = SumLanes(parts[r]);
    __m256i least_sum = _mm256_setzero_si256();
    if constexpr (Format::kMinimum == Minimum::kIntegers) {
      least_sum = SumLanes(least_parts[r]);
    }
    if constexpr (Format::kOffset != 0) {
      whole = _mm256_sub_epi32(
          whole, _mm256_set1_epi32(Format::kOffset *
                                   LoadInt(activations[r].whole + 4 * block)));
    }
    sums[r] = AddBlock<Format>(whole, least_sum, _mm256_cvtph_ps(LoadHalf(d)),
                               _mm256_cvtph_ps(LoadHalf(least)), activations[r],
                               block, sums[r]);
  }
}

// Eight rows are read side by side, which the hardware's prefetchers do not
// follow; the next eight lie behind them in the file.
template <size_t kBytes>
BATON_INLINE void Prefetch(const uint8_t* at) {
  for (size_t i = 0; i < kBytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T0);
  }
}

template <typename Format, size_t kRows>
void MultiplyFew(const TileTask& task, size_t row) {
  using Block = typename Format::Block;
  Activation activations[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    activations[r] = ActivationOf(task, row + r, Format::kValues);
  }
  for (size_t first = 0; first < task.outputs; first += 8) {
    const Block* blocks[8];
    for (size_t i = 0; i < 8; ++i) {
      const size_t output =
          first + i < task.outputs ? first + i : task.outputs - 1;
      blocks[i] = reinterpret_cast<const Block*>(task.weights +
                                                 output * task.weight_stride);
    }
    __m256 sums[kRows];
    for (size_t r = 0; r < kRows; ++r) sums[r] = _mm256_setzero_ps();
    const uint8_t* ahead = task.weights + (first + 8) * task.weight_stride;
    for (size_t block = 0; block < task.columns / Format::kValues; ++block) {
      Prefetch<8 * sizeof(Block)>(ahead + block * 8 * sizeof(Block));
      MultiplyBlocks<Format, kRows>(blocks, block, activations, sums);
    }
    for (size_t r = 0; r < kRows; ++r) {
      float* out = task.out + (row + r) * task.out_stride + first;
      if (first + 8 <= task.outputs) {
        _mm256_storeu_ps(out, sums[r]);
      } else {
        alignas(32) float lanes[8];
        _mm256_store_ps(lanes, sums[r]);
        for (size_t i = 0; first + i < task.outputs; ++i) out[i] = lanes[i];
      }
    }
  }
}

// From so many rows on, unpacking a tile pays.
constexpr size_t kManyRows = 4;

template <typename Format>
void Multiply(const TileTask& task) {
  if (task.rows >= kManyRows && task.outputs == kTileOutputs) {
    MultiplyMany<Format>(task);
    return;
  }
  size_t row = 0;
  for (; row + 3 <= task.rows; row += 3) MultiplyFew<Format, 3>(task, row);
  if (task.rows - row == 2) MultiplyFew<Format, 2>(task, row);
  if (task.rows - row == 1) MultiplyFew<Format, 1>(task, row);
}

// --- Activations

BATON_INLINE __m256 Magnitude(__m256 x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
BATON_INLINE float LargestLane(__m256 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  m = _mm_max_ss(m, _mm_movehdup_ps(m));
  return _mm_cvtss_f32(m);
}
BATON_INLINE void StoreFloat(uint8_t* at, float value) {
  __builtin_memcpy(at, &value, sizeof(value));
}
BATON_INLINE float RoundToHalf(float x) { return _cvtsh_ss(_cvtss_sh(x, 0)); }
// 32 values times `inverse`, rounded, as bytes in order.
BATON_INLINE __m256i Round32(const float* x, __m256 inverse) {
  __m256i part[4];
  for (int i = 0; i < 4; ++i) {
    part[i] =
        _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
  }
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]),
                         _mm256_packs_epi32(part[2], part[3]));
  return _mm256_permutevar8x32_epi32(bytes,
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
BATON_INLINE int32_t SumBytes(__m256i bytes) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(quads),
                              _mm256_extracti128_si256(quads, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
  return _mm_cvtsi128_si32(sum);
}
// The largest magnitude; *broken if a value is infinite or no number.
BATON_INLINE float Largest(const float* x, size_t count, bool* broken) {
  __m256 largest = _mm256_setzero_ps();
  __m256 bad = _mm256_setzero_ps();
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  for (size_t i = 0; i < count; i += 8) {
    const __m256 magnitude = Magnitude(_mm256_loadu_ps(x + i));
    largest = _mm256_max_ps(magnitude, largest);
    bad = _mm256_or_ps(bad, _mm256_cmp_ps(magnitude, infinity, _CMP_NLT_UQ));
  }
  *broken = _mm256_movemask_ps(bad) != 0;
  return LargestLane(largest);
}

void QuantiseSmall(const float* x, size_t columns, uint8_t* out) {
  const size_t blocks = columns / kSmallBlock;
  uint8_t* floats = out + columns;
  for (size_t block = 0; block < blocks; ++block) {
    const float* in = x + block * kSmallBlock;
    bool broken;
    const float largest = Largest(in, kSmallBlock, &broken);
    float d = broken ? __builtin_nanf("") : 0.0f;
    __m256i q = _mm256_setzero_si256();
    if (!broken && largest >= kSmallest) {
      d = largest / 127.0f;
      q = Round32(in, _mm256_set1_ps(127.0f / largest));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + block * kSmallBlock),
                        q);
    const int32_t sum = SumBytes(q);
    StoreFloat(floats + 4 * block, RoundToHalf(d));
    StoreFloat(floats + 4 * (blocks + block),
               RoundToHalf(d * static_cast<float>(sum)));
    __builtin_memcpy(floats + 4 * (2 * blocks + block), &sum, sizeof(sum));
  }
}

void QuantiseLarge(const float* x, size_t columns, uint8_t* out) {
  const size_t blocks = columns / kLargeBlock;
  uint8_t* floats = out + columns;
  for (size_t block = 0; block < blocks; ++block) {
    const float* in = x + block * kLargeBlock;
    bool broken;
    const float largest = Largest(in, kLargeBlock, &broken);
    const bool zero = broken || largest < kSmallest;
    float d = broken ? __builtin_nanf("") : 0.0f;
    float inverse = 0;
    if (!zero) {
      // The first value of that magnitude decides the sign.
      size_t at = 0;
      const __m256 wanted = _mm256_set1_ps(largest);
      int mask = 0;
      for (; mask == 0; at += 8) {
        mask = _mm256_movemask_ps(_mm256_cmp_ps(
            Magnitude(_mm256_loadu_ps(in + at)), wanted, _CMP_EQ_OQ));
      }
      inverse =
          -127.0f /
          in[at - 8 +
             static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(mask)))];
      d = 1.0f / inverse;
    }
    StoreFloat(floats + 4 * block, d);
    for (size_t j = 0; j < 8; ++j) {
      // Saturation to 127 is part of the packing; magnitudes stay below 128.
      const __m256i q = zero ? _mm256_setzero_si256()
                             : Round32(in + 32 * j, _mm256_set1_ps(inverse));
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(out + block * kLargeBlock + 32 * j), q);
      const int16_t sum = static_cast<int16_t>(SumBytes(q));
      __builtin_memcpy(floats + 4 * blocks + 2 * (8 * block + j), &sum,
                       sizeof(sum));
    }
  }
}

}  // namespace

const MatMulForms kAvx2MatMul = {
    "avx2",
    QuantiseSmall,
    QuantiseLarge,
    {Multiply<Q4_0>, Multiply<Q4_1>, Multiply<Q5_0>, Multiply<Q5_1>,
     Multiply<Q8_0>, Multiply<Iq4Nl>, Multiply<Q4K>, Multiply<Q5K>,
     Multiply<Q6K>, Multiply<Iq4Xs>}};

}  // namespace baton::worker
