// Compiled with AVX2, FMA and F16C; entered only where CPUID reports them.
//
// An output's 16 lanes are two registers. Three activation rows times two
// weight rows keep twelve sums in registers, and each loaded value is used two
// or three times; where rows are few, four weight rows are read side by side.
#include <immintrin.h>

#include "worker/kernels/matmul/float_matmul.h"

namespace baton::worker {
namespace {

#define BATON_INLINE inline __attribute__((always_inline))

// Load: eight values, widened.
struct F32 {
  using Value = float;
  static BATON_INLINE __m256 Load(const float* at) {
    return _mm256_loadu_ps(at);
  }
};
struct F16 {
  using Value = uint16_t;
  static BATON_INLINE __m256 Load(const uint16_t* at) {
    return _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
};
struct Bf16 {
  using Value = uint16_t;
  static BATON_INLINE __m256 Load(const uint16_t* at) {
    const __m256i wide = _mm256_cvtepu16_epi32(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
};

// The lanes of matmul.h, added in halves.
BATON_INLINE float SumLanes(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight),
                                 _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <typename Format, size_t kRows, size_t kOutputs>
struct Sums {
  __m256 low[kRows][kOutputs], high[kRows][kOutputs];

  BATON_INLINE void Clear() {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t o = 0; o < kOutputs; ++o) {
        low[r][o] = high[r][o] = _mm256_setzero_ps();
      }
    }
  }
  // Adds the products of 16 columns, each row's at x[r] and w[o].
  BATON_INLINE void Add(const float* const* x,
                        const typename Format::Value* const* w, size_t at) {
    __m256 w_low[kOutputs], w_high[kOutputs];
#pragma GCC unroll 4
    for (size_t o = 0; o < kOutputs; ++o) {
      w_low[o] = Format::Load(w[o] + at);
      w_high[o] = Format::Load(w[o] + at + 8);
    }
#pragma GCC unroll 3
    for (size_t r = 0; r < kRows; ++r) {
      const __m256 x_low = _mm256_loadu_ps(x[r] + at);
      const __m256 x_high = _mm256_loadu_ps(x[r] + at + 8);
#pragma GCC unroll 4
      for (size_t o = 0; o < kOutputs; ++o) {
        low[r][o] = _mm256_fmadd_ps(w_low[o], x_low, low[r][o]);
        high[r][o] = _mm256_fmadd_ps(w_high[o], x_high, high[r][o]);
      }
    }
  }
};

// `kRows` rows of activations from `row` on, times `kOutputs` weight rows.
template <typename Format, size_t kRows, size_t kOutputs>
BATON_INLINE void MultiplyBlock(const TileTask& task, size_t row,
                                size_t output) {
  using Value = typename Format::Value;
  const float* x[kRows];
  const Value* w[kOutputs];
  for (size_t r = 0; r < kRows; ++r) {
    x[r] = reinterpret_cast<const float*>(task.activations +
                                          (row + r) * task.activation_stride);
  }
  for (size_t o = 0; o < kOutputs; ++o) {
    w[o] = reinterpret_cast<const Value*>(task.weights +
                                          (output + o) * task.weight_stride);
  }
  Sums<Format, kRows, kOutputs> sums;
  sums.Clear();
  size_t at = 0;
  for (; at + kFloatLanes <= task.columns; at += kFloatLanes) {
    sums.Add(x, w, at);
  }
  if (at < task.columns) {
    float x_end[kRows][kFloatLanes] = {};
    Value w_end[kOutputs][kFloatLanes] = {};
    const float* x_at[kRows];
    const Value* w_at[kOutputs];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = at; i < task.columns; ++i) x_end[r][i - at] = x[r][i];
      x_at[r] = x_end[r];
    }
    for (size_t o = 0; o < kOutputs; ++o) {
      for (size_t i = at; i < task.columns; ++i) w_end[o][i - at] = w[o][i];
      w_at[o] = w_end[o];
    }
    sums.Add(x_at, w_at, 0);
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t o = 0; o < kOutputs; ++o) {
      task.out[(row + r) * task.out_stride + output + o] =
          SumLanes(sums.low[r][o], sums.high[r][o]);
    }
  }
}

template <typename Format>
void Multiply(const TileTask& task) {
  size_t row = 0;
  for (; row + 3 <= task.rows; row += 3) {
    size_t output = 0;
    for (; output + 2 <= task.outputs; output += 2) {
      MultiplyBlock<Format, 3, 2>(task, row, output);
    }
    if (output < task.outputs) MultiplyBlock<Format, 3, 1>(task, row, output);
  }
  for (; row < task.rows; ++row) {
    size_t output = 0;
    for (; output + 4 <= task.outputs; output += 4) {
      MultiplyBlock<Format, 1, 4>(task, row, output);
    }
    for (; output < task.outputs; ++output) {
      MultiplyBlock<Format, 1, 1>(task, row, output);
    }
  }
}

}  // namespace

void MultiplyF32Avx2(const TileTask& task) { Multiply<F32>(task); }
void MultiplyF16Avx2(const TileTask& task) { Multiply<F16>(task); }
void MultiplyBf16Avx2(const TileTask& task) { Multiply<Bf16>(task); }

}  // namespace baton::worker
