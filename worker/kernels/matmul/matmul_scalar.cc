// The kernels' definition in plain C++: what every other form must equal bit
// for bit.
//
// One accumulator an output. For each float block in ascending order: the
// exact integer sum over the block, converted once, then one fma with the
// product of the two scales; then, where the format has minima, one more fma
// for them.
#include <cmath>
#include <cstring>

#include "worker/kernels/half.h"
#include "worker/kernels/matmul/float_matmul.h"
#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {
namespace {

// The integers of one float block.
struct Integers {
  int values[kLargeBlock];
  int scales[16];  // of sub-blocks
  int minima[8];   // of sub-blocks of 32
  float d = 0;
  float m = 0;
};

// Sixteen bytes as 32 nibbles, low ones first.
void Nibbles(const uint8_t* bytes, int* values) {
  for (int i = 0; i < 16; ++i) {
    values[i] = bytes[i] & 15;
    values[i + 16] = bytes[i] >> 4;
  }
}

void FifthBits(const uint8_t* bits, int* values) {
  for (int i = 0; i < 32; ++i) values[i] |= (bits[i / 8] >> (i % 8) & 1) << 4;
}

void SixBitPairs(const uint8_t* packed, int* scales, int* minima) {
  for (int j = 0; j < 4; ++j) {
    scales[j] = packed[j] & 63;
    minima[j] = packed[j + 4] & 63;
    scales[j + 4] = (packed[j + 8] & 15) | (packed[j] >> 6) << 4;
    minima[j + 4] = packed[j + 8] >> 4 | (packed[j + 4] >> 6) << 4;
  }
}

struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr bool kLarge = false;
  static void Decode(const Block& block, Integers* out) {
    Nibbles(block.quants, out->values);
    for (int i = 0; i < 32; ++i) out->values[i] -= 8;
    out->d = HalfToFloat(block.d);
  }
};
struct Q4_1 {
  using Block = BlockQ4_1;
  static constexpr bool kLarge = false;
  static constexpr bool kMinimum = true;
  static void Decode(const Block& block, Integers* out) {
    Nibbles(block.quants, out->values);
    out->d = HalfToFloat(block.d);
    out->m = HalfToFloat(block.m);
  }
};
struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr bool kLarge = false;
  static void Decode(const Block& block, Integers* out) {
    Nibbles(block.quants, out->values);
    FifthBits(block.high, out->values);
    for (int i = 0; i < 32; ++i) out->values[i] -= 16;
    out->d = HalfToFloat(block.d);
  }
};
struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr bool kLarge = false;
  static constexpr bool kMinimum = true;
  static void Decode(const Block& block, Integers* out) {
    Nibbles(block.quants, out->values);
    FifthBits(block.high, out->values);
    out->d = HalfToFloat(block.d);
    out->m = HalfToFloat(block.m);
  }
};
struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr bool kLarge = false;
  static void Decode(const Block& block, Integers* out) {
    for (int i = 0; i < 32; ++i) out->values[i] = block.quants[i];
    out->d = HalfToFloat(block.d);
  }
};
struct Iq4Nl {
  using Block = BlockIq4Nl;
  static constexpr bool kLarge = false;
  static void Decode(const Block& block, Integers* out) {
    Nibbles(block.quants, out->values);
    for (int i = 0; i < 32; ++i) out->values[i] = kIq4Values[out->values[i]];
    out->d = HalfToFloat(block.d);
  }
};
// In the K formats, 32 bytes hold sub-block 2j in their low nibbles and 2j + 1
// in their high ones.
void WideNibbles(const uint8_t* bytes, int* values) {
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 32; ++i) {
      values[64 * j + i] = bytes[32 * j + i] & 15;
      values[64 * j + 32 + i] = bytes[32 * j + i] >> 4;
    }
  }
}
struct Q4K {
  using Block = BlockQ4K;
  static constexpr bool kLarge = true;
  static constexpr bool kMinimum = true;
  static constexpr int kSubBlock = 32;
  static void Decode(const Block& block, Integers* out) {
    WideNibbles(block.quants, out->values);
    SixBitPairs(block.scales, out->scales, out->minima);
    out->d = HalfToFloat(block.d);
    out->m = HalfToFloat(block.dmin);
  }
};
struct Q5K {
  using Block = BlockQ5K;
  static constexpr bool kLarge = true;
  static constexpr bool kMinimum = true;
  static constexpr int kSubBlock = 32;
  static void Decode(const Block& block, Integers* out) {
    WideNibbles(block.quants, out->values);
    for (int i = 0; i < 256; ++i) {
      out->values[i] |= (block.high[i % 32] >> (i / 32) & 1) << 4;
    }
    SixBitPairs(block.scales, out->scales, out->minima);
    out->d = HalfToFloat(block.d);
    out->m = HalfToFloat(block.dmin);
  }
};
struct Q6K {
  using Block = BlockQ6K;
  static constexpr bool kLarge = true;
  static constexpr bool kMinimum = false;
  static constexpr int kSubBlock = 16;
  static void Decode(const Block& block, Integers* out) {
    for (int i = 0; i < 256; ++i) {
      const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
      const uint8_t low = block.low[64 * half + 32 * (quarter % 2) + at];
      const uint8_t high = block.high[32 * half + at];
      out->values[i] = ((quarter < 2 ? low & 15 : low >> 4) |
                        (high >> (2 * quarter) & 3) << 4) -
                       32;
    }
    for (int j = 0; j < 16; ++j) out->scales[j] = block.scales[j];
    out->d = HalfToFloat(block.d);
  }
};
struct Iq4Xs {
  using Block = BlockIq4Xs;
  static constexpr bool kLarge = true;
  static constexpr bool kMinimum = false;
  static constexpr int kSubBlock = 32;
  static void Decode(const Block& block, Integers* out) {
    for (int j = 0; j < 8; ++j) {
      int* values = out->values + 32 * j;
      Nibbles(block.quants + 16 * j, values);
      for (int i = 0; i < 32; ++i) values[i] = kIq4Values[values[i]];
      out->scales[j] = ((block.scales_low[j / 2] >> (4 * (j % 2)) & 15) |
                        (block.scales_high >> (2 * j) & 3) << 4) -
                       32;
    }
    out->d = HalfToFloat(block.d);
  }
};

template <typename Format>
constexpr bool HasMinimum() {
  if constexpr (requires { Format::kMinimum; }) return Format::kMinimum;
  return false;
}

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename Format>
float AddBlock(const Integers& w, const uint8_t* activation, size_t columns,
               size_t block, float sum) {
  constexpr size_t kBlock = Format::kLarge ? kLargeBlock : kSmallBlock;
  const size_t blocks = columns / kBlock;
  const int8_t* q =
      reinterpret_cast<const int8_t*>(activation) + block * kBlock;
  const uint8_t* floats = activation + columns;
  const float d = w.d * Load<float>(floats + 4 * block);
  int32_t whole = 0;
  if constexpr (Format::kLarge) {
    for (size_t i = 0; i < kBlock; ++i) {
      whole += w.scales[i / Format::kSubBlock] * w.values[i] * q[i];
    }
  } else {
    for (size_t i = 0; i < kBlock; ++i) whole += w.values[i] * q[i];
  }
  sum = std::fma(static_cast<float>(whole), d, sum);
  if constexpr (HasMinimum<Format>()) {
    if constexpr (Format::kLarge) {
      int32_t least = 0;
      for (size_t j = 0; j < 8; ++j) {
        least += w.minima[j] *
                 Load<int16_t>(floats + 4 * blocks + 2 * (8 * block + j));
      }
      sum = std::fma(-static_cast<float>(least),
                     w.m * Load<float>(floats + 4 * block), sum);
    } else {
      sum = std::fma(w.m, Load<float>(floats + 4 * (blocks + block)), sum);
    }
  }
  return sum;
}

template <typename Format>
void Multiply(const TileTask& task) {
  using Block = typename Format::Block;
  constexpr size_t kBlock = Format::kLarge ? kLargeBlock : kSmallBlock;
  for (size_t output = 0; output < task.outputs; ++output) {
    const uint8_t* weights = task.weights + output * task.weight_stride;
    for (size_t row = 0; row < task.rows; ++row) {
      task.out[row * task.out_stride + output] = 0;
    }
    for (size_t block = 0; block < task.columns / kBlock; ++block) {
      Integers integers;
      Format::Decode(Load<Block>(weights + block * sizeof(Block)), &integers);
      for (size_t row = 0; row < task.rows; ++row) {
        float* out = task.out + row * task.out_stride + output;
        *out = AddBlock<Format>(integers,
                                task.activations + row * task.activation_stride,
                                task.columns, block, *out);
      }
    }
  }
}

template <typename T>
void Store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// The magnitude of the largest element that is a number, and the first
// element that has it.
float Largest(const float* x, size_t count, float* signed_value) {
  float largest = 0;
  *signed_value = 0;
  for (size_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(x[i]);
    if (magnitude > largest) {
      largest = magnitude;
      *signed_value = x[i];
    }
  }
  return largest;
}

bool IsBroken(const float* x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return true;
  }
  return false;
}

void QuantiseSmall(const float* x, size_t columns, uint8_t* out) {
  const size_t blocks = columns / kSmallBlock;
  uint8_t* floats = out + columns;
  for (size_t block = 0; block < blocks; ++block) {
    const float* in = x + block * kSmallBlock;
    int8_t* q = reinterpret_cast<int8_t*>(out) + block * kSmallBlock;
    float first;
    const float largest = Largest(in, kSmallBlock, &first);
    float d = 0;
    int32_t sum = 0;
    const bool broken = IsBroken(in, kSmallBlock);
    if (broken || largest < kSmallest) {
      if (broken) d = NAN;
      std::memset(q, 0, kSmallBlock);
    } else {
      d = largest / 127.0f;
      const float inverse = 127.0f / largest;
      for (size_t i = 0; i < kSmallBlock; ++i) {
        q[i] = static_cast<int8_t>(std::nearbyint(in[i] * inverse));
        sum += q[i];
      }
    }
    Store(floats + 4 * block, HalfToFloat(FloatToHalf(d)));
    Store(floats + 4 * (blocks + block),
          HalfToFloat(FloatToHalf(d * static_cast<float>(sum))));
    Store(floats + 4 * (2 * blocks + block), sum);
  }
}

void QuantiseLarge(const float* x, size_t columns, uint8_t* out) {
  const size_t blocks = columns / kLargeBlock;
  uint8_t* floats = out + columns;
  for (size_t block = 0; block < blocks; ++block) {
    const float* in = x + block * kLargeBlock;
    int8_t* q = reinterpret_cast<int8_t*>(out) + block * kLargeBlock;
    float first;
    const float largest = Largest(in, kLargeBlock, &first);
    float d = 0;
    const bool broken = IsBroken(in, kLargeBlock);
    if (broken || largest < kSmallest) {
      if (broken) d = NAN;
      std::memset(q, 0, kLargeBlock);
    } else {
      const float inverse = -127.0f / first;
      for (size_t i = 0; i < kLargeBlock; ++i) {
        const float rounded = std::nearbyint(in[i] * inverse);
        q[i] = static_cast<int8_t>(std::fmin(rounded, 127.0f));
      }
      d = 1.0f / inverse;
    }
    Store(floats + 4 * block, d);
    for (size_t j = 0; j < 8; ++j) {
      int sum = 0;
      for (size_t i = 0; i < 32; ++i) sum += q[32 * j + i];
      Store(floats + 4 * blocks + 2 * (8 * block + j),
            static_cast<int16_t>(sum));
    }
  }
}

}  // namespace

const MatMulForms kScalarMatMul = {
    "scalar",
    QuantiseSmall,
    QuantiseLarge,
    {Multiply<Q4_0>, Multiply<Q4_1>, Multiply<Q5_0>, Multiply<Q5_1>,
     Multiply<Q8_0>, Multiply<Iq4Nl>, Multiply<Q4K>, Multiply<Q5K>,
     Multiply<Q6K>, Multiply<Iq4Xs>, MultiplyF32Scalar, MultiplyF16Scalar,
     MultiplyBf16Scalar}};

}  // namespace baton::worker
