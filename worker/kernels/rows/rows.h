// What a forward pass does to its rows between the matrix products: norm,
// rotary positions, gate, sums, gathers. Plain C++: knows nothing of ggml
// (worker/graph/row_ops.h is the seam).
//
// The law: a row of the result depends on that row of the inputs alone, bit
// for bit; not on the other rows, the threads, or the instruction set. Each
// operation is one sequence of IEEE operations, rounded to nearest:
//   - RMS norm: the squares, exact in double, are added by fma into 16 double
//     accumulators by index mod 16, which one tree sums (SumTree in lanes.h);
//     scale = float(1 / sqrt(sum / columns + epsilon)), in double; out =
//     (x * scale) * weight, in float;
//   - sum: a + b;
//   - SwiGLU (arXiv:2002.05202): t = exp(-|gate|) by ExpOfNegative (lanes.h);
//     out = gate * (gate < 0 ? t : 1) / (1 + t) * up, from left to right;
//   - rotation: out[i] = fma(x[i], cosine[i], partner * sine[i]), partner being
//     the pair's other element and sine[i] signed (rope.h).
// Infinities and what is no number spoil their own row at most. The bits of a
// NaN are not defined, only that it is one.
#ifndef BATON_WORKER_KERNELS_ROWS_ROWS_H_
#define BATON_WORKER_KERNELS_ROWS_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "worker/kernels/kernel_form.h"
#include "worker/kernels/rows/rope.h"
#include "worker/kernels/rows/row_forms.h"

namespace baton::worker {

// The kernels of the best form up to `form`.
const RowForms& RowFormsOf(KernelForm form);

struct RowShape {
  size_t columns = 0;
  size_t rows = 0;
};

// All matrices are [rows, columns] floats without gaps, and no output overlaps
// an input. Thread `thread` of `threads` does its share of the rows.

// weight: [columns].
void RmsNormRows(const RowForms& forms, const float* x, const float* weight,
                 const RowShape& shape, float epsilon, float* out, int thread,
                 int threads);

// b: [rows, columns].
void AddRows(const RowForms& forms, const float* a, const float* b,
             const RowShape& shape, float* out, int thread, int threads);

// bias: [columns], added to every row.
void AddBias(const RowForms& forms, const float* x, const float* bias,
             const RowShape& shape, float* out, int thread, int threads);

// sum = AddRows(a, b) and normed = RmsNormRows(sum, weight), in one pass.
void AddNormRows(const RowForms& forms, const float* a, const float* b,
                 const float* weight, const RowShape& shape, float epsilon,
                 float* sum, float* normed, int thread, int threads);

// out = silu(gate) * up.
void SwiGluRows(const RowForms& forms, const float* gate, const float* up,
                const RowShape& shape, float* out, int thread, int threads);

// Turns the first `dimensions` of each head and copies the others. x, out:
// [rows, heads, head_dim]; table: [rows, 2 * dimensions] of FillRopeRow.
struct HeadShape {
  size_t rows = 0;
  size_t heads = 0;
  size_t head_dim = 0;
  size_t dimensions = 0;  // even, at most head_dim
};
void RotateRows(const RowForms& forms, RopePairs pairs, const float* x,
                const float* table, const HeadShape& shape, float* out,
                int thread, int threads);

// out row i = row ids[i] of x; shape: of out.
void GatherRows(const float* x, const int32_t* ids, const RowShape& shape,
                float* out, int thread, int threads);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ROWS_ROWS_H_
