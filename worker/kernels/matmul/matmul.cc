#include "worker/kernels/matmul/matmul.h"

#include <algorithm>

#include "worker/kernels/share.h"

namespace baton::worker {
namespace {

struct FormatFacts {
  size_t block_bytes;
  ActivationFormat activation;
};

constexpr auto kSmall = ActivationFormat::kSmallBlocks;
constexpr auto kLarge = ActivationFormat::kLargeBlocks;
constexpr auto kFloats = ActivationFormat::kFloats;

constexpr FormatFacts kFacts[kWeightFormats] = {
    {sizeof(BlockQ4_0), kSmall},
    {sizeof(BlockQ4_1), kSmall},
    {sizeof(BlockQ5_0), kSmall},
    {sizeof(BlockQ5_1), kSmall},
    {sizeof(BlockQ8_0), kSmall},
    {sizeof(BlockIq4Nl), kSmall},
    {sizeof(BlockQ4K), kLarge},
    {sizeof(BlockQ5K), kLarge},
    {sizeof(BlockQ6K), kLarge},
    {sizeof(BlockIq4Xs), kLarge},
    {4, kFloats},
    {2, kFloats},
    {2, kFloats},
};
static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 &&
              sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24 &&
              sizeof(BlockQ8_0) == 34 && sizeof(BlockIq4Nl) == 18 &&
              sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 &&
              sizeof(BlockQ6K) == 210 && sizeof(BlockIq4Xs) == 136);

}  // namespace

ActivationFormat ActivationOf(WeightFormat format) {
  return kFacts[format].activation;
}

size_t ActivationRowBytes(ActivationFormat format, size_t columns) {
  switch (format) {
    case ActivationFormat::kSmallBlocks:
      return columns + 12 * (columns / kSmallBlock);
    case ActivationFormat::kLargeBlocks:
      return columns + 4 * (columns / kLargeBlock) + 2 * (columns / 32);
    case ActivationFormat::kFloats:
      break;
  }
  return columns * sizeof(float);
}

size_t BlockValues(WeightFormat format) {
  switch (kFacts[format].activation) {
    case ActivationFormat::kSmallBlocks:
      return kSmallBlock;
    case ActivationFormat::kLargeBlocks:
      return kLargeBlock;
    case ActivationFormat::kFloats:
      break;
  }
  return 1;
}

size_t BlockBytes(WeightFormat format) { return kFacts[format].block_bytes; }

const MatMulForms& MatMulFormsOf(KernelForm form) {
#if defined(__x86_64__)
  if (form >= KernelForm::kAmx) return kAmxMatMul;
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
              const uint8_t* activations, size_t activation_stride, size_t rows,
              float* out, size_t out_stride, int thread, int threads) {
  const size_t tiles = (weights.outputs + kTileOutputs - 1) / kTileOutputs;
  const Share share = ShareOf(tiles, thread, threads);
  TileTask task;
  task.weight_stride = weights.row_bytes;
  task.columns = weights.columns;
  task.activations = activations;
  task.activation_stride = activation_stride;
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
