// The transposition of keys in half precision for the x86 forms. Everything is
// local to its source (lanes_avx2.h says why).
#ifndef BATON_WORKER_KERNELS_ATTENTION_TRANSPOSE_X86_H_
#define BATON_WORKER_KERNELS_ATTENTION_TRANSPOSE_X86_H_

#include <stddef.h>
#include <stdint.h>

#include "worker/kernels/attention/attention_kernel.h"

namespace baton::worker {
namespace {

// out[d][j] = in[j][d] for j < 16, d < 8: two squares of eight by eight, one in
// each half of the registers.
BATON_INLINE void TransposeTile(const uint16_t* in, size_t dim, uint16_t* out) {
  __m256i row[8], two[8], four[8];
  for (size_t j = 0; j < 8; ++j) {
    const auto* low = reinterpret_cast<const __m128i*>(in + j * dim);
    const auto* high = reinterpret_cast<const __m128i*>(in + (j + 8) * dim);
    row[j] = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
  }
  for (size_t j = 0; j < 8; j += 2) {
    two[j] = _mm256_unpacklo_epi16(row[j], row[j + 1]);
    two[j + 1] = _mm256_unpackhi_epi16(row[j], row[j + 1]);
  }
  // four[j + n]: dimensions 2n and 2n + 1 of rows j to j + 3.
  for (size_t j = 0; j < 8; j += 4) {
    four[j] = _mm256_unpacklo_epi32(two[j], two[j + 2]);
    four[j + 1] = _mm256_unpackhi_epi32(two[j], two[j + 2]);
    four[j + 2] = _mm256_unpacklo_epi32(two[j + 1], two[j + 3]);
    four[j + 3] = _mm256_unpackhi_epi32(two[j + 1], two[j + 3]);
  }
  for (size_t n = 0; n < 4; ++n) {
    auto* even = reinterpret_cast<__m256i*>(out + 2 * n * kKeys);
    auto* odd = reinterpret_cast<__m256i*>(out + (2 * n + 1) * kKeys);
    _mm256_storeu_si256(even, _mm256_unpacklo_epi64(four[n], four[n + 4]));
    _mm256_storeu_si256(odd, _mm256_unpackhi_epi64(four[n], four[n + 4]));
  }
}

void TransposeHalf(const uint16_t* in, size_t dim, size_t keys, uint16_t* out) {
  for (size_t j = 0; j < keys; j += kLanes) {
    for (size_t d = 0; d < dim; d += 8) {
      TransposeTile(in + j * dim + d, dim, out + d * kKeys + j);
    }
  }
}

void TransposeSingle(const float* in, size_t dim, size_t keys, float* out) {
  TransposeScalar(in, dim, keys, out);
}

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_TRANSPOSE_X86_H_
