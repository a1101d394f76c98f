// The matrix formats of GGUF that our kernels multiply, as they lie in the
// file, and the two formats that activations are rounded to.
//
// Included by files that are compiled with different instruction sets: keep it
// free of functions (see attention_forms.h).
#ifndef BATON_WORKER_KERNELS_MATMUL_WEIGHT_FORMAT_H_
#define BATON_WORKER_KERNELS_MATMUL_WEIGHT_FORMAT_H_

#include <stddef.h>
#include <stdint.h>

namespace baton::worker {

enum WeightFormat : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kIq4Nl,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Xs,
  kF32,
  kF16,
  kBf16,
};
constexpr size_t kWeightFormats = 13;
// The first of them; for the others activations stay float.
constexpr size_t kQuantisedFormats = 10;

// Blocks of the file. d and m are half precision; value = d * q + m (m = 0
// where there is none) for 32 values, low nibbles first.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t quants[16];  // q = nibble - 8
};
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t quants[16];
};
struct BlockQ5_0 {
  uint16_t d;
  uint8_t high[4];     // the fifth bits, bit i for value i
  uint8_t quants[16];  // q - 16
};
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t high[4];
  uint8_t quants[16];
};
struct BlockQ8_0 {
  uint16_t d;
  int8_t quants[32];
};
struct BlockIq4Nl {
  uint16_t d;
  uint8_t quants[16];  // q = kIq4Values[nibble]
};
// 256 values. Sub-block j of 32: value = d * scale[j] * q - dmin * min[j].
struct BlockQ4K {
  uint16_t d, dmin;
  uint8_t scales[12];  // eight pairs of six bits
  uint8_t quants[128];
};
struct BlockQ5K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t quants[128];
};
// 256 values. Sub-block j of 16: value = d * scales[j] * (q - 32).
struct BlockQ6K {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;
};
// 256 values. Sub-block j of 32: value = d * (scale[j] - 32) *
// kIq4Values[nibble].
struct BlockIq4Xs {
  uint16_t d;
  uint16_t scales_high;
  uint8_t scales_low[4];
  uint8_t quants[128];
};

// The values of the IQ4 formats; source: ggml-common.h, kvalues_iq4nl.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

// An activation row rounded for blocks of 32 values, `columns` of them:
//   int8 q[columns], float d[columns / 32], float s[columns / 32],
//   int32 sum[columns / 32]
// with d = max|x| / 127 rounded to half precision, q = round(x * 127 / max|x|)
// to nearest even, sum = the exact sum of q, s = d * sum rounded to half
// precision (d there before its own rounding, as in ggml's Q8_1).
//
// For blocks of 256:
//   int8 q[columns], float d[columns / 256], int16 sums[columns / 32]
// with the value m of largest magnitude mapped to -127 (ggml's Q8_K): i =
// -127 / m, q = min(127, round(x * i)), d = 1 / i.
//
// A block with an infinity or a NaN has q = 0 and d = NaN; one with no value of
// magnitude kSmallest or more is all zero.
constexpr float kSmallest = 0x1p-100f;
constexpr size_t kSmallBlock = 32;
constexpr size_t kLargeBlock = 256;

// Outputs (weight rows) that are computed together: one per 32-bit lane.
constexpr size_t kTileOutputs = 16;

// Partial sums of an output in the float formats; see matmul.h.
constexpr size_t kFloatLanes = 16;

// One tile of the product: `outputs` weight rows times `rows` activations.
struct TileTask {
  const uint8_t* weights;  // the tile's first row
  size_t weight_stride;    // bytes from row to row
  size_t outputs;          // 1..kTileOutputs
  size_t columns;
  const uint8_t* activations;  // rounded; floats for the float formats
  size_t activation_stride;    // bytes
  size_t rows;
  float* out;         // out[row * out_stride + output]
  size_t out_stride;  // floats
};

// One instruction set's kernels. All give the same bits.
struct MatMulForms {
  const char* name;
  void (*quantise_small)(const float* x, size_t columns, uint8_t* out);
  void (*quantise_large)(const float* x, size_t columns, uint8_t* out);
  void (*multiply[kWeightFormats])(const TileTask& task);
};

extern const MatMulForms kScalarMatMul;
#if defined(__x86_64__)
extern const MatMulForms kAvx2MatMul;
extern const MatMulForms kAvx512MatMul;
extern const MatMulForms kAmxMatMul;
// Activations for both, compiled with AVX2, FMA and F16C.
void QuantiseSmallAvx2(const float* x, size_t columns, uint8_t* out);
void QuantiseLargeAvx2(const float* x, size_t columns, uint8_t* out);
#endif

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_WEIGHT_FORMAT_H_
