// Sixteen floats in AVX2 registers. Only for sources that are compiled with
// AVX2, FMA and F16C: everything is local to its source, so that no other one
// can get a copy that its processor cannot run. What each operation gives is
// written in lanes_scalar.h.
#ifndef BATON_WORKER_KERNELS_LANES_AVX2_H_
#define BATON_WORKER_KERNELS_LANES_AVX2_H_

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/kernels/lanes.h"

namespace baton::worker {
namespace {

struct Avx2Lanes {
  static constexpr size_t kRegisters = 2;

  __m256 low, high;

  static BATON_INLINE Avx2Lanes Load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  static BATON_INLINE Avx2Lanes LoadHalf(const uint16_t* p) {
    const __m128i* in = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(in)),
            _mm256_cvtph_ps(_mm_loadu_si128(in + 1))};
  }
  static BATON_INLINE Avx2Lanes Broadcast(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
  }
  static BATON_INLINE Avx2Lanes Zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
  }
  static BATON_INLINE Avx2Lanes Add(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static BATON_INLINE Avx2Lanes Multiply(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static BATON_INLINE Avx2Lanes MultiplyAdd(Avx2Lanes a, Avx2Lanes b,
                                            Avx2Lanes c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low),
            _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static BATON_INLINE Avx2Lanes Max(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static BATON_INLINE Avx2Lanes RoundToInteger(Avx2Lanes x) {
    const __m256 shift = _mm256_set1_ps(12582912.0f);
    return {_mm256_sub_ps(_mm256_add_ps(x.low, shift), shift),
            _mm256_sub_ps(_mm256_add_ps(x.high, shift), shift)};
  }
  static BATON_INLINE __m256 ExpBits(__m256 n) {
    const __m256i i =
        _mm256_cvtps_epi32(_mm256_max_ps(n, _mm256_set1_ps(-126.0f)));
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(i, _mm256_set1_epi32(127)), 23));
  }
  static BATON_INLINE Avx2Lanes ExpBits(Avx2Lanes n) {
    return {ExpBits(n.low), ExpBits(n.high)};
  }
  static BATON_INLINE Avx2Lanes ZeroBelow(Avx2Lanes x, float limit,
                                          Avx2Lanes y) {
    const __m256 l = _mm256_set1_ps(limit);
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.low, l, _CMP_LT_OQ), y.low),
            _mm256_andnot_ps(_mm256_cmp_ps(x.high, l, _CMP_LT_OQ), y.high)};
  }
  static BATON_INLINE Avx2Lanes Divide(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static BATON_INLINE Avx2Lanes NegativeMagnitude(Avx2Lanes x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(x.low, sign), _mm256_or_ps(x.high, sign)};
  }
  static BATON_INLINE Avx2Lanes IfNegative(Avx2Lanes x, Avx2Lanes y,
                                           Avx2Lanes z) {
    const __m256 zero = _mm256_setzero_ps();
    return {
        _mm256_blendv_ps(z.low, y.low, _mm256_cmp_ps(x.low, zero, _CMP_LT_OQ)),
        _mm256_blendv_ps(z.high, y.high,
                         _mm256_cmp_ps(x.high, zero, _CMP_LT_OQ))};
  }
  static BATON_INLINE Avx2Lanes SwapPairs(Avx2Lanes x) {
    return {_mm256_permute_ps(x.low, 0xb1), _mm256_permute_ps(x.high, 0xb1)};
  }
  // Sixteen lanes to four: i + i+8, then i + i+4.
  static BATON_INLINE __m128 Quarter(Avx2Lanes a) {
    const __m256 eight = _mm256_add_ps(a.low, a.high);
    return _mm_add_ps(_mm256_castps256_ps128(eight),
                      _mm256_extractf128_ps(eight, 1));
  }
  BATON_INLINE void Store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  BATON_INLINE void StoreHalf(uint16_t* p) const {
    __m128i* out = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(out, _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(out + 1, _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
  }
  BATON_INLINE float Sum() const {
    const __m128 four = Quarter(*this);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  BATON_INLINE float Largest() const {
    const __m256 eight = _mm256_max_ps(low, high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight),
                                   _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_LANES_AVX2_H_
