#include "worker/kernels/matmul/matmul.h"

#include <algorithm>

namespace baton::worker {
namespace {

struct FormatFacts {
  size_t block_bytes;
  bool large;
};

constexpr FormatFacts kFacts[kWeightFormats] = {
    {sizeof(BlockQ4_0), false}, {sizeof(BlockQ4_1), false},
    {sizeof(BlockQ5_0), false}, {sizeof(BlockQ5_1), false},
    {sizeof(BlockQ8_0), false}, {sizeof(BlockIq4Nl), false},
    {sizeof(BlockQ4K), true},   {sizeof(BlockQ5K), true},
    {sizeof(BlockQ6K), true},   {sizeof(BlockIq4Xs), true},
};
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 &&
              sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24 &&
              sizeof(BlockQ8_0) == 34 && sizeof(BlockIq4Nl) == 18 &&
              sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 &&
              sizeof(BlockQ6K) == 210 && sizeof(BlockIq4Xs) == 136);

// The share [first, last) of `thread` in `count` things.
struct Share {
  size_t first, last;
};
Share ShareOf(size_t count, int thread, int threads) {
  const size_t t = static_cast<size_t>(thread);
  const size_t n = static_cast<size_t>(threads);
  return {count * t / n, count * (t + 1) / n};
}

}  // namespace

ActivationFormat ActivationOf(WeightFormat format) {
  return kFacts[format].large ? ActivationFormat::kLargeBlocks
                              : ActivationFormat::kSmallBlocks;
}

size_t ActivationRowBytes(ActivationFormat format, size_t columns) {
  return format == ActivationFormat::kLargeBlocks
             ? columns + 4 * (columns / kLargeBlock) + 2 * (columns / 32)
             : columns + 12 * (columns / kSmallBlock);
}

size_t BlockValues(WeightFormat format) {
  return kFacts[format].large ? kLargeBlock : kSmallBlock;
}

size_t BlockBytes(WeightFormat format) { return kFacts[format].block_bytes; }

const MatMulForms& MatMulFormsOf(KernelForm form) {
#if defined(__x86_64__)
  if (form >= KernelForm::kAvx512Vnni) return kAvx512MatMul;
  if (form >= KernelForm::kAvx2) return kAvx2MatMul;
#endif
  return kScalarMatMul;
}

void QuantiseRows(const MatMulForms& forms, ActivationFormat format,
                  const float* x, size_t stride, size_t columns, size_t rows,
                  uint8_t* out, int thread, int threads) {
  const size_t row_bytes = ActivationRowBytes(format, columns);
  const Share share = ShareOf(rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    (format == ActivationFormat::kLargeBlocks ? forms.quantise_large
                                              : forms.quantise_small)(
        x + row * stride, columns, out + row * row_bytes);
  }
}

void Multiply(const MatMulForms& forms, const WeightMatrix& weights,
              const uint8_t* activations, size_t rows, float* out,
              size_t out_stride, int thread, int threads) {
  const size_t tiles = (weights.outputs + kTileOutputs - 1) / kTileOutputs;
  const Share share = ShareOf(tiles, thread, threads);
  TileTask task;
  task.weight_stride = weights.row_bytes;
  task.columns = weights.columns;
  task.activations = activations;
  task.activation_stride =
      ActivationRowBytes(ActivationOf(weights.format), weights.columns);
  task.rows = rows;
  task.out_stride = out_stride;
  for (size_t tile = share.first; tile < share.last; ++tile) {
    const size_t first = tile * kTileOutputs;
    task.weights = weights.rows + first * weights.row_bytes;
    task.outputs = std::min(kTileOutputs, weights.outputs - first);
    task.out = out + first;
    forms.multiply[weights.format](task);
  }
}

}  // namespace baton::worker
