// How each weight format becomes integers in AVX2 registers. Only for sources
// that are compiled with AVX2, FMA and F16C: everything is local to its source,
// so that no other one can get a copy that its processor cannot run.
#ifndef BATON_WORKER_KERNELS_MATMUL_AVX2_VALUES_H_
#define BATON_WORKER_KERNELS_MATMUL_AVX2_VALUES_H_

#include <immintrin.h>

#include "worker/kernels/matmul/unaligned.h"
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
// The eight scales, then the eight minima, of a K format, as bytes.
BATON_INLINE __m128i SixBitPairs(const uint8_t* packed) {
  const uint32_t low = static_cast<uint32_t>(LoadInt(packed));
  const uint32_t middle = static_cast<uint32_t>(LoadInt(packed + 4));
  const uint32_t high = static_cast<uint32_t>(LoadInt(packed + 8));
  constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
  return _mm_setr_epi32(
      static_cast<int>(low & kSix),
      static_cast<int>((high & kFour) | (low >> 2 & kTwo)),
      static_cast<int>(middle & kSix),
      static_cast<int>((high >> 4 & kFour) | (middle >> 2 & kTwo)));
}
// Eight scales of IQ4_XS as bytes: the low four bits of scale j are nibble j of
// `low`, the high two are bits 2j and 2j + 1 of `high`; 32 is the zero.
BATON_INLINE __m128i Iq4Scales(const uint8_t* low, uint16_t high) {
  const __m128i packed = _mm_cvtsi32_si128(LoadInt(low));
  const __m128i nibbles = _mm_and_si128(
      _mm_unpacklo_epi8(packed, _mm_srli_epi16(packed, 4)), _mm_set1_epi8(15));
  // Moves the two bits of scale j to the top of 16-bit lane j, then down.
  const __m128i places = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8,
                                        1 << 6, 1 << 4, 1 << 2, 1);
  const __m128i top = _mm_srli_epi16(
      _mm_mullo_epi16(_mm_set1_epi16(static_cast<int16_t>(high)), places), 14);
  const __m128i bits = _mm_packus_epi16(_mm_slli_epi16(top, 4), top);
  return _mm_sub_epi8(_mm_or_si128(nibbles, _mm_move_epi64(bits)),
                      _mm_set1_epi8(32));
}

// How a format's integers are multiplied.
//   kSigned     values are signed: the activation takes the weight's sign
//   kOffset     subtracted from each value, through the activation's sum
//   kGroups     groups of four products a lane that fit in 16 bits
//   kManyRows   from so many rows on, unpacking a tile pays; found by timing
//   kNibbleBytes  so many bytes hold twice as many values and no more, the
//               first ones in the low nibbles; 0 = the format is not like that
//   kSubBlocks  integer scales a float block; 0 = none
//   Scales      they, as int8; eight scales are followed by eight minima where
//               the format has such
enum class Minimum { kNone, kFloat, kIntegers };

struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 8;
  static constexpr size_t kManyRows = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 8;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static constexpr int kNibbleBytes = 16;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return Nibbles(block.quants);
  }
  static BATON_INLINE __m256i FromNibbles(__m256i nibbles) { return nibbles; }
};
struct Q4_1 {
  using Block = BlockQ4_1;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 8;
  static constexpr size_t kManyRows = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kFloat;
  static constexpr int kNibbleBytes = 16;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return Nibbles(block.quants);
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.m; }
  static BATON_INLINE __m256i FromNibbles(__m256i nibbles) { return nibbles; }
};
struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 4;
  static constexpr size_t kManyRows = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 16;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static constexpr int kNibbleBytes = 0;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return _mm256_or_si256(Nibbles(block.quants), FifthBits(block.high));
  }
};
struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 4;
  static constexpr size_t kManyRows = 4;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kFloat;
  static constexpr int kNibbleBytes = 0;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return _mm256_or_si256(Nibbles(block.quants), FifthBits(block.high));
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.m; }
};
struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 1;
  static constexpr size_t kManyRows = 8;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static constexpr int kNibbleBytes = 0;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return LoadAll(block.quants);
  }
};
struct Iq4Nl {
  using Block = BlockIq4Nl;
  static constexpr size_t kValues = 32, kSubBlocks = 0, kGroups = 1;
  static constexpr size_t kManyRows = 4;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static constexpr int kNibbleBytes = 16;
  static BATON_INLINE __m256i Values(const Block& block, size_t) {
    return Iq4(Nibbles(block.quants));
  }
  static BATON_INLINE __m256i FromNibbles(__m256i nibbles) {
    return Iq4(nibbles);
  }
};
struct Q4K {
  using Block = BlockQ4K;
  static constexpr size_t kValues = 256, kSubBlocks = 8, kGroups = 8;
  static constexpr size_t kManyRows = 8;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kIntegers;
  static constexpr int kNibbleBytes = 32;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    return WideNibbles(block.quants, sub);
  }
  static BATON_INLINE __m128i Scales(const Block& block) {
    return SixBitPairs(block.scales);
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.dmin; }
  static BATON_INLINE __m256i FromNibbles(__m256i nibbles) { return nibbles; }
};
struct Q5K {
  using Block = BlockQ5K;
  static constexpr size_t kValues = 256, kSubBlocks = 8, kGroups = 4;
  static constexpr size_t kManyRows = 8;
  static constexpr bool kSigned = false;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kIntegers;
  static constexpr int kNibbleBytes = 0;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    const __m256i low = WideNibbles(block.quants, sub);
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << sub));
    const __m256i high =
        _mm256_cmpeq_epi8(_mm256_and_si256(LoadAll(block.high), bit), bit);
    return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(16)));
  }
  static BATON_INLINE __m128i Scales(const Block& block) {
    return SixBitPairs(block.scales);
  }
  static BATON_INLINE uint16_t Least(const Block& block) { return block.dmin; }
};
struct Q6K {
  using Block = BlockQ6K;
  static constexpr size_t kValues = 256, kSubBlocks = 16, kGroups = 4;
  static constexpr size_t kManyRows = 9;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static constexpr int kNibbleBytes = 0;
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
  static BATON_INLINE __m128i Scales(const Block& block) {
    return LoadHalf(block.scales);
  }
};
struct Iq4Xs {
  using Block = BlockIq4Xs;
  static constexpr size_t kValues = 256, kSubBlocks = 8, kGroups = 1;
  static constexpr size_t kManyRows = 4;
  static constexpr bool kSigned = true;
  static constexpr int kOffset = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  static constexpr int kNibbleBytes = 16;
  static BATON_INLINE __m256i Values(const Block& block, size_t sub) {
    return Iq4(Nibbles(block.quants + 16 * sub));
  }
  static BATON_INLINE __m128i Scales(const Block& block) {
    return Iq4Scales(block.scales_low, block.scales_high);
  }
  static BATON_INLINE __m256i FromNibbles(__m256i nibbles) {
    return Iq4(nibbles);
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
