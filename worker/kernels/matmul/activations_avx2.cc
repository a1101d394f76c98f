// Compiled with AVX2, FMA and F16C. Rounds activations to int8 by blocks.
#include "worker/kernels/matmul/avx2_values.h"

namespace baton::worker {
namespace {

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

}  // namespace

void QuantiseSmallAvx2(const float* x, size_t columns, uint8_t* out) {
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

void QuantiseLargeAvx2(const float* x, size_t columns, uint8_t* out) {
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

}  // namespace baton::worker
