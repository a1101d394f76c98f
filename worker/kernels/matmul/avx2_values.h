// How each weight format becomes integers in AVX2 registers. Only for sources
// that are compiled with AVX2, FMA and F16C: everything is local to its source,
// so that no other one can get a copy that its processor cannot run.
#ifndef BATON_WORKER_KERNELS_MATMUL_AVX2_VALUES_H_
#define BATON_WORKER_KERNELS_MATMUL_AVX2_VALUES_H_

#include <immintrin.h>

#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {

namespace {

#define BATON_INLINE inline __attribute__((always_inline))

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
// Sub-block `sub` of a K format: 32 bytes hold two, the even one in the low
// nibbles.
BATON_INLINE __m256i WideNibbles(const uint8_t* quants, size_t sub) {
  const __m256i packed = LoadAll(quants + 32 * (sub / 2));
  return _mm256_and_si256(sub % 2 == 0 ? packed : _mm256_srli_epi16(packed, 4),
                          _mm256_set1_epi8(15));
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
    return WideNibbles(block.quants, sub);
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
    const __m256i low = WideNibbles(block.quants, sub);
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

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_AVX2_VALUES_H_
