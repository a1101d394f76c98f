#include "worker/kernels/rows/dequantise.h"

#include <cstring>

#include "worker/kernels/half.h"

namespace baton::worker {
namespace {

// Value i of 32 in sixteen bytes, low nibbles first.
int Nibble(const uint8_t* quants, size_t i) {
  return i < 16 ? quants[i] & 15 : quants[i - 16] >> 4;
}
int Bit(const uint8_t* bits, size_t i) { return bits[i / 8] >> (i % 8) & 1; }

void Dequantise(const BlockQ4_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(Nibble(block.quants, i) - 8);
  }
}
void Dequantise(const BlockQ4_1& block, float* out) {
  const float d = HalfToFloat(block.d), m = HalfToFloat(block.m);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(Nibble(block.quants, i)) + m;
  }
}
void Dequantise(const BlockQ5_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < 32; ++i) {
    const int q = Nibble(block.quants, i) | Bit(block.high, i) << 4;
    out[i] = d * static_cast<float>(q - 16);
  }
}
void Dequantise(const BlockQ5_1& block, float* out) {
  const float d = HalfToFloat(block.d), m = HalfToFloat(block.m);
  for (size_t i = 0; i < 32; ++i) {
    const int q = Nibble(block.quants, i) | Bit(block.high, i) << 4;
    out[i] = d * static_cast<float>(q) + m;
  }
}
void Dequantise(const BlockQ8_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(block.quants[i]);
  }
}
// Iq4Nl and IQ4_XS: sixteen bytes of 32 indices.
void Iq4(float d, const uint8_t* quants, float* out) {
  for (size_t i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(kIq4Values[Nibble(quants, i)]);
  }
}
void Dequantise(const BlockIq4Nl& block, float* out) {
  Iq4(HalfToFloat(block.d), block.quants, out);
}
void Dequantise(const BlockIq4Xs& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t sub = 0; sub < 8; ++sub) {
    const int scale = (block.scales_low[sub / 2] >> (4 * (sub % 2)) & 15) |
                      (block.scales_high >> (2 * sub) & 3) << 4;
    Iq4(d * static_cast<float>(scale - 32), block.quants + 16 * sub,
        out + 32 * sub);
  }
}

// Pair `sub` of the eight six-bit scales and minima of a K format.
struct SixBitPair {
  int scale = 0, minimum = 0;
};
SixBitPair UnpackPair(const uint8_t* packed, size_t sub) {
  if (sub < 4) return {packed[sub] & 63, packed[sub + 4] & 63};
  return {(packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4,
          packed[sub + 4] >> 4 | (packed[sub] >> 6) << 4};
}
// Value i of sub-block `sub`: 32 bytes hold an even one in their low nibbles
// and the next in their high ones.
int WideNibble(const uint8_t* quants, size_t sub, size_t i) {
  const uint8_t byte = quants[32 * (sub / 2) + i];
  return sub % 2 == 0 ? byte & 15 : byte >> 4;
}
template <typename Block, typename High>
void DequantiseWithMinima(const Block& block, High high, float* out) {
  const float d = HalfToFloat(block.d), dmin = HalfToFloat(block.dmin);
  for (size_t sub = 0; sub < 8; ++sub) {
    const SixBitPair pair = UnpackPair(block.scales, sub);
    const float scale = d * static_cast<float>(pair.scale);
    const float minimum = dmin * static_cast<float>(pair.minimum);
    for (size_t i = 0; i < 32; ++i) {
      const int q = WideNibble(block.quants, sub, i) | high(sub, i);
      out[32 * sub + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}
void Dequantise(const BlockQ4K& block, float* out) {
  DequantiseWithMinima(
      block, [](size_t, size_t) { return 0; }, out);
}
void Dequantise(const BlockQ5K& block, float* out) {
  const auto high = [&](size_t sub, size_t i) {
    return (block.high[i] >> sub & 1) << 4;
  };
  DequantiseWithMinima(block, high, out);
}
void Dequantise(const BlockQ6K& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const uint8_t low = block.low[64 * half + 32 * (quarter % 2) + at];
    const uint8_t high = block.high[32 * half + at];
    const int q = ((quarter < 2 ? low & 15 : low >> 4) |
                   (high >> (2 * quarter) & 3) << 4) -
                  32;
    out[i] =
        d * static_cast<float>(block.scales[i / 16]) * static_cast<float>(q);
  }
}

template <typename Block, size_t kValues>
void DequantiseBlocks(const uint8_t* row, size_t columns, float* out) {
  for (size_t i = 0; i < columns / kValues; ++i) {
    Block block;
    std::memcpy(&block, row + i * sizeof(Block), sizeof(Block));
    Dequantise(block, out + i * kValues);
  }
}

uint16_t LoadHalf(const uint8_t* row, size_t i) {
  uint16_t value;
  std::memcpy(&value, row + sizeof(value) * i, sizeof(value));
  return value;
}
void CopyFloats(const uint8_t* row, size_t columns, float* out) {
  std::memcpy(out, row, columns * sizeof(float));
}
void WidenHalves(const uint8_t* row, size_t columns, float* out) {
  for (size_t i = 0; i < columns; ++i) out[i] = HalfToFloat(LoadHalf(row, i));
}
void WidenBfloat16(const uint8_t* row, size_t columns, float* out) {
  for (size_t i = 0; i < columns; ++i) {
    const uint32_t bits = static_cast<uint32_t>(LoadHalf(row, i)) << 16;
    std::memcpy(&out[i], &bits, sizeof(bits));
  }
}

// By WeightFormat.
using RowReader = void (*)(const uint8_t* row, size_t columns, float* out);
constexpr RowReader kReaders[kWeightFormats] = {
    DequantiseBlocks<BlockQ4_0, kSmallBlock>,
    DequantiseBlocks<BlockQ4_1, kSmallBlock>,
    DequantiseBlocks<BlockQ5_0, kSmallBlock>,
    DequantiseBlocks<BlockQ5_1, kSmallBlock>,
    DequantiseBlocks<BlockQ8_0, kSmallBlock>,
    DequantiseBlocks<BlockIq4Nl, kSmallBlock>,
    DequantiseBlocks<BlockQ4K, kLargeBlock>,
    DequantiseBlocks<BlockQ5K, kLargeBlock>,
    DequantiseBlocks<BlockQ6K, kLargeBlock>,
    DequantiseBlocks<BlockIq4Xs, kLargeBlock>,
    CopyFloats,
    WidenHalves,
    WidenBfloat16,
};

}  // namespace

void DequantiseRow(WeightFormat format, const uint8_t* row, size_t columns,
                   float* out) {
  kReaders[format](row, columns, out);
}

}  // namespace baton::worker
