// Compiled with AVX2, FMA and F16C; entered only where CPUID reports them.
#include "worker/kernels/lanes_avx2.h"
#include "worker/kernels/rows/row_forms.h"
#include "worker/kernels/rows/row_kernel.h"

namespace baton::worker {
namespace {

struct Avx2Doubles {
  __m256d quarter[4];  // lanes 4i .. 4i + 3

  static BATON_INLINE Avx2Doubles Zero() {
    const __m256d zero = _mm256_setzero_pd();
    return {{zero, zero, zero, zero}};
  }
  static BATON_INLINE __m256d AddSquare(__m128 x, __m256d sum) {
    const __m256d value = _mm256_cvtps_pd(x);
    return _mm256_fmadd_pd(value, value, sum);
  }
  BATON_INLINE void AddSquares(Avx2Lanes x) {
    quarter[0] = AddSquare(_mm256_castps256_ps128(x.low), quarter[0]);
    quarter[1] = AddSquare(_mm256_extractf128_ps(x.low, 1), quarter[1]);
    quarter[2] = AddSquare(_mm256_castps256_ps128(x.high), quarter[2]);
    quarter[3] = AddSquare(_mm256_extractf128_ps(x.high, 1), quarter[3]);
  }
  BATON_INLINE double Sum() const {
    const __m256d four = _mm256_add_pd(_mm256_add_pd(quarter[0], quarter[2]),
                                       _mm256_add_pd(quarter[1], quarter[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four),
                                   _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
};

}  // namespace

const RowForms kAvx2Rows = BATON_ROW_FORMS(Avx2Lanes, Avx2Doubles);

}  // namespace baton::worker
