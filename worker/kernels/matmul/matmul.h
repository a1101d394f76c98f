// Products of matrices with rows of activations. Plain C++: knows nothing of
// ggml (worker/graph/kernel_ops.h is the seam).
//
// The law: out[row][output] depends on that weight row and that activation row
// alone, bit for bit; not on the other rows, the threads, or the instruction
// set. It holds because
//   - activations are rounded to int8 by blocks, one rule for every form
//     (weight_format.h);
//   - the sum over a float block (32 values; 256 in the K formats and IQ4_XS)
//     is an exact int32, whatever the order: at most 256 * 127 * 127 * 63 <
//     2^31 with every format's scales;
//   - each output has one float accumulator. For each float block in ascending
//     order: fma(sum, d_weight * d_activation, accumulator); then, where the
//     format has minima: Q4_1 and Q5_1 fma(m, s, accumulator), Q4_K and Q5_K
//     fma(-minima sum, dmin * d_activation, accumulator).
// For F32, F16 and BF16 matrices nothing is rounded: both factors are widened
// to f32, both rows are thought to end in zeros up to a multiple of 16, lane
// k % 16 adds the products of column k by fma in ascending order, and the lanes
// are added in halves: i and i + 8, then i and i + 4, i and i + 2, 0 and 1.
// matmul_scalar.cc is the definition; the other forms put outputs into lanes,
// so that they do the same float operations.
#ifndef BATON_WORKER_KERNELS_MATMUL_MATMUL_H_
#define BATON_WORKER_KERNELS_MATMUL_MATMUL_H_

#include <cstddef>
#include <cstdint>

#include "worker/kernels/kernel_form.h"
#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {

// How activations must be rounded for a weight format; kFloats: not at all.
enum class ActivationFormat { kSmallBlocks, kLargeBlocks, kFloats };
ActivationFormat ActivationOf(WeightFormat format);
// Bytes of a row of `columns` values, a multiple of the block.
size_t ActivationRowBytes(ActivationFormat format, size_t columns);

size_t BlockValues(WeightFormat format);
size_t BlockBytes(WeightFormat format);

// The kernels of the best form up to `form`.
const MatMulForms& MatMulFormsOf(KernelForm form);

// Rounds rows of x ([rows, columns] floats, rows `stride` floats apart) to
// small or large blocks in `out`, rows ActivationRowBytes apart. Thread
// `thread` of `threads` does its share of the rows.
void QuantiseRows(const MatMulForms& forms, ActivationFormat format,
                  const float* x, size_t stride, size_t columns, size_t rows,
                  uint8_t* out, int thread, int threads);

// A matrix as it lies in the file: `outputs` rows of `columns` values.
struct WeightMatrix {
  WeightFormat format;
  const uint8_t* rows;
  size_t row_bytes;
  size_t columns;
  size_t outputs;
};

// out[row][output] = weights[output] . activations[row]; rows of activations
// are `activation_stride` bytes apart, rows of `out` `out_stride` floats.
// Thread `thread` of `threads` does its share of the outputs, in whole tiles.
void Multiply(const MatMulForms& forms, const WeightMatrix& weights,
              const uint8_t* activations, size_t activation_stride, size_t rows,
              float* out, size_t out_stride, int thread, int threads);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_MATMUL_H_
