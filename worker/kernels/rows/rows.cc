#include "worker/kernels/rows/rows.h"

#include <cstring>

#include "worker/kernels/share.h"

namespace baton::worker {

const RowForms& RowFormsOf(KernelForm form) {
#if defined(__x86_64__)
  if (form >= KernelForm::kAvx2) return kAvx2Rows;
#endif
  return kScalarRows;
}

void RmsNormRows(const RowForms& forms, const float* x, const float* weight,
                 const RowShape& shape, float epsilon, float* out, int thread,
                 int threads) {
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    const size_t at = row * shape.columns;
    forms.rms_norm(x + at, weight, shape.columns, epsilon, out + at);
  }
}

void AddRows(const RowForms& forms, const float* a, const float* b,
             const RowShape& shape, float* out, int thread, int threads) {
  const Share share = ShareOf(shape.rows, thread, threads);
  const size_t at = share.first * shape.columns;
  forms.add(a + at, b + at, (share.last - share.first) * shape.columns,
            out + at);
}

void AddBias(const RowForms& forms, const float* x, const float* bias,
             const RowShape& shape, float* out, int thread, int threads) {
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    const size_t at = row * shape.columns;
    forms.add(x + at, bias, shape.columns, out + at);
  }
}

void AddNormRows(const RowForms& forms, const float* a, const float* b,
                 const float* weight, const RowShape& shape, float epsilon,
                 float* sum, float* normed, int thread, int threads) {
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    const size_t at = row * shape.columns;
    forms.add(a + at, b + at, shape.columns, sum + at);
    forms.rms_norm(sum + at, weight, shape.columns, epsilon, normed + at);
  }
}

void SwiGluRows(const RowForms& forms, const float* gate, const float* up,
                const RowShape& shape, float* out, int thread, int threads) {
  const Share share = ShareOf(shape.rows, thread, threads);
  const size_t at = share.first * shape.columns;
  forms.swiglu(gate + at, up + at, (share.last - share.first) * shape.columns,
               out + at);
}

void RotateRows(const RowForms& forms, RopePairs pairs, const float* x,
                const float* table, const HeadShape& shape, float* out,
                int thread, int threads) {
  const auto rotate = pairs == RopePairs::kAdjacent ? forms.rotate_adjacent
                                                    : forms.rotate_halves;
  const size_t dimensions = shape.dimensions;
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    const float* cosines = table + row * 2 * dimensions;
    for (size_t head = 0; head < shape.heads; ++head) {
      const size_t at = (row * shape.heads + head) * shape.head_dim;
      rotate(x + at, cosines, cosines + dimensions, dimensions, out + at);
      std::memcpy(out + at + dimensions, x + at + dimensions,
                  (shape.head_dim - dimensions) * sizeof(float));
    }
  }
}

void GatherRows(const float* x, const int32_t* ids, const RowShape& shape,
                float* out, int thread, int threads) {
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    std::memcpy(out + row * shape.columns,
                x + static_cast<size_t>(ids[row]) * shape.columns,
                shape.columns * sizeof(float));
  }
}

}  // namespace baton::worker
