// Rows of a matrix as floats, for the embedding of tokens.
//
// One definition for all machines, in plain C++: a row a token is no time, and
// float products and sums that are each rounded need no second form. With a
// block's half-precision numbers widened exactly:
//   - Q4_0, Q5_0, Q8_0, IQ4_NL: d * q;
//   - Q4_1, Q5_1: d * q + m;
//   - Q4_K, Q5_K: (d * scale) * q - (dmin * min);
//   - Q6_K, IQ4_XS: (d * scale) * q;
//   - F32, F16, BF16: exact.
#ifndef BATON_WORKER_KERNELS_ROWS_DEQUANTISE_H_
#define BATON_WORKER_KERNELS_ROWS_DEQUANTISE_H_

#include <cstddef>
#include <cstdint>

#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {

// columns: a multiple of the format's block. out: [columns].
void DequantiseRow(WeightFormat format, const uint8_t* row, size_t columns,
                   float* out);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ROWS_DEQUANTISE_H_
