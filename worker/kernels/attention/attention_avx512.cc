// Compiled with AVX-512 F, DQ and VL; entered only where CPUID reports them.
#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/attention_kernel.h"
#include "worker/kernels/avx512_intrinsics.h"
// After the intrinsics.
#include "worker/kernels/attention/transpose_x86.h"

namespace baton::worker {
namespace {

struct Avx512Lanes {
  static constexpr size_t kRegisters = 1;

  __m512 all;

  static BATON_INLINE Avx512Lanes Load(const float* p) {
    return {_mm512_loadu_ps(p)};
  }
  static BATON_INLINE Avx512Lanes LoadHalf(const uint16_t* p) {
    return {_mm512_cvtph_ps(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static BATON_INLINE Avx512Lanes Broadcast(float x) {
    return {_mm512_set1_ps(x)};
  }
  static BATON_INLINE Avx512Lanes Zero() { return {_mm512_setzero_ps()}; }
  static BATON_INLINE Avx512Lanes Add(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_add_ps(a.all, b.all)};
  }
  static BATON_INLINE Avx512Lanes Multiply(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_mul_ps(a.all, b.all)};
  }
  static BATON_INLINE Avx512Lanes MultiplyAdd(Avx512Lanes a, Avx512Lanes b,
                                              Avx512Lanes c) {
    return {_mm512_fmadd_ps(a.all, b.all, c.all)};
  }
  static BATON_INLINE Avx512Lanes Max(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_max_ps(a.all, b.all)};
  }
  static BATON_INLINE Avx512Lanes RoundToInteger(Avx512Lanes x) {
    const __m512 shift = _mm512_set1_ps(12582912.0f);
    return {_mm512_sub_ps(_mm512_add_ps(x.all, shift), shift)};
  }
  static BATON_INLINE Avx512Lanes ExpBits(Avx512Lanes n) {
    const __m512i i =
        _mm512_cvtps_epi32(_mm512_max_ps(n.all, _mm512_set1_ps(-126.0f)));
    return {_mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(i, _mm512_set1_epi32(127)), 23))};
  }
  static BATON_INLINE Avx512Lanes ZeroBelow(Avx512Lanes x, float limit,
                                            Avx512Lanes y) {
    const __mmask16 keep =
        _mm512_cmp_ps_mask(x.all, _mm512_set1_ps(limit), _CMP_NLT_UQ);
    return {_mm512_maskz_mov_ps(keep, y.all)};
  }
  // Sixteen lanes to four: i + i+8, then i + i+4.
  static BATON_INLINE __m128 Quarter(Avx512Lanes a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.all),
                                       _mm512_extractf32x8_ps(a.all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(eight),
                      _mm256_extractf128_ps(eight, 1));
  }
  BATON_INLINE void Store(float* p) const { _mm512_storeu_ps(p, all); }
  BATON_INLINE void StoreHalf(uint16_t* p) const {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(p),
        _mm512_cvtps_ph(all, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  BATON_INLINE float Sum() const {
    const __m128 four = Quarter(*this);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  BATON_INLINE float Largest() const {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(all),
                                       _mm512_extractf32x8_ps(all, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight),
                                   _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

}  // namespace

const AttentionForms kAvx512Attention = BATON_ATTENTION_FORMS(Avx512Lanes);

}  // namespace baton::worker
