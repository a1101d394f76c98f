#include "worker/kernels/half.h"

#include <cstring>

namespace baton::worker {

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  uint32_t bits;
  if (exponent == 0) {
    // Zero and subnormal numbers: exact in single precision.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    std::memcpy(&bits, &magnitude, sizeof(bits));
    bits |= sign;
  } else if (exponent == 31) {
    bits = sign | 0x7f800000 | (fraction << 13);
    if (fraction != 0) bits |= 0x00400000;  // quiet, as the hardware does
  } else {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  }
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint16_t FloatToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return sign | 0x7e00 | static_cast<uint16_t>((magnitude >> 13) & 0x3ff);
  }
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000) {
    // Subnormal result: adding 2^-1 aligns its last place with that of a
    // single-precision number in [0.5, 1), so the addition does the rounding.
    float rounded;
    std::memcpy(&rounded, &magnitude, sizeof(rounded));
    rounded += 0.5f;
    uint32_t sum;
    std::memcpy(&sum, &rounded, sizeof(sum));
    return sign | static_cast<uint16_t>(sum - 0x3f000000);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t rounded = magnitude + 0xfff + odd;
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

}  // namespace baton::worker
