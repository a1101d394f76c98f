// The definition of the float products; see matmul.h.
#include <cmath>
#include <cstring>

#include "worker/kernels/half.h"
#include "worker/kernels/matmul/float_matmul.h"

namespace baton::worker {
namespace {

struct F32 {
  using Value = float;
  static float Widen(float value) { return value; }
};
struct F16 {
  using Value = uint16_t;
  static float Widen(uint16_t value) { return HalfToFloat(value); }
};
struct Bf16 {
  using Value = uint16_t;
  static float Widen(uint16_t value) {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof(wide));
    return wide;
  }
};

template <typename Format>
float Dot(const typename Format::Value* weights, const float* x,
          size_t columns) {
  float lanes[kFloatLanes] = {};
  for (size_t first = 0; first < columns; first += kFloatLanes) {
    for (size_t i = 0; i < kFloatLanes; ++i) {
      const bool inside = first + i < columns;
      lanes[i] = std::fma(inside ? Format::Widen(weights[first + i]) : 0.0f,
                          inside ? x[first + i] : 0.0f, lanes[i]);
    }
  }
  for (size_t half = kFloatLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <typename Format>
void Multiply(const TileTask& task) {
  for (size_t row = 0; row < task.rows; ++row) {
    const float* x = reinterpret_cast<const float*>(
        task.activations + row * task.activation_stride);
    for (size_t output = 0; output < task.outputs; ++output) {
      task.out[row * task.out_stride + output] =
          Dot<Format>(reinterpret_cast<const typename Format::Value*>(
                          task.weights + output * task.weight_stride),
                      x, task.columns);
    }
  }
}

}  // namespace

void MultiplyF32Scalar(const TileTask& task) { Multiply<F32>(task); }
void MultiplyF16Scalar(const TileTask& task) { Multiply<F16>(task); }
void MultiplyBf16Scalar(const TileTask& task) { Multiply<Bf16>(task); }

}  // namespace baton::worker
