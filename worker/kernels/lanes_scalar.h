// Sixteen floats in plain C++: the definition of what lanes do, which the
// other instruction sets' must give bit for bit.
#ifndef BATON_WORKER_KERNELS_LANES_SCALAR_H_
#define BATON_WORKER_KERNELS_LANES_SCALAR_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "worker/kernels/half.h"
#include "worker/kernels/lanes.h"

namespace baton::worker {
namespace {

struct ScalarLanes {
  static constexpr size_t kRegisters = 2;

  float lane[kLanes];

  template <typename Function>
  static ScalarLanes Each(Function function) {
    ScalarLanes out;
    for (size_t i = 0; i < kLanes; ++i) out.lane[i] = function(i);
    return out;
  }
  static ScalarLanes Load(const float* p) {
    return Each([&](size_t i) { return p[i]; });
  }
  static ScalarLanes LoadHalf(const uint16_t* p) {
    return Each([&](size_t i) { return HalfToFloat(p[i]); });
  }
  static ScalarLanes Broadcast(float x) {
    return Each([&](size_t) { return x; });
  }
  static ScalarLanes Zero() { return Broadcast(0); }
  static ScalarLanes Add(const ScalarLanes& a, const ScalarLanes& b) {
    return Each([&](size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static ScalarLanes Multiply(const ScalarLanes& a, const ScalarLanes& b) {
    return Each([&](size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static ScalarLanes MultiplyAdd(const ScalarLanes& a, const ScalarLanes& b,
                                 const ScalarLanes& c) {
    return Each(
        [&](size_t i) { return fmaf(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static ScalarLanes Max(const ScalarLanes& a, const ScalarLanes& b) {
    return Each([&](size_t i) {
      return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    });
  }
  // Nearest even by adding and taking away 1.5 * 2^23: good for |x| < 2^22,
  // and ZeroBelow drops what lies outside.
  static ScalarLanes RoundToInteger(const ScalarLanes& x) {
    return Each([&](size_t i) {
      const float shifted = x.lane[i] + 12582912.0f;
      return shifted - 12582912.0f;
    });
  }
  static ScalarLanes ExpBits(const ScalarLanes& n) {
    return Each([&](size_t i) {
      // Out of range only where ZeroBelow drops the result.
      const float clamped = n.lane[i] > -126 ? n.lane[i] : -126.0f;
      const uint32_t bits =
          static_cast<uint32_t>(static_cast<int32_t>(clamped) + 127) << 23;
      float out;
      memcpy(&out, &bits, sizeof(out));
      return out;
    });
  }
  static ScalarLanes ZeroBelow(const ScalarLanes& x, float limit,
                               const ScalarLanes& y) {
    return Each([&](size_t i) { return x.lane[i] < limit ? 0.0f : y.lane[i]; });
  }
  static ScalarLanes Divide(const ScalarLanes& a, const ScalarLanes& b) {
    return Each([&](size_t i) { return a.lane[i] / b.lane[i]; });
  }
  static ScalarLanes NegativeMagnitude(const ScalarLanes& x) {
    return Each([&](size_t i) { return -fabsf(x.lane[i]); });
  }
  static ScalarLanes IfNegative(const ScalarLanes& x, const ScalarLanes& y,
                                const ScalarLanes& z) {
    return Each(
        [&](size_t i) { return x.lane[i] < 0 ? y.lane[i] : z.lane[i]; });
  }
  static ScalarLanes SwapPairs(const ScalarLanes& x) {
    return Each([&](size_t i) { return x.lane[i ^ 1]; });
  }
  void Store(float* p) const { memcpy(p, lane, sizeof(lane)); }
  void StoreHalf(uint16_t* p) const {
    for (size_t i = 0; i < kLanes; ++i) p[i] = FloatToHalf(lane[i]);
  }
  float Sum() const {
    ScalarLanes s = *this;
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) s.lane[i] += s.lane[i + width];
    }
    return s.lane[0];
  }
  float Largest() const {
    ScalarLanes s = *this;
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) {
        const float other = s.lane[i + width];
        s.lane[i] = s.lane[i] > other ? s.lane[i] : other;
      }
    }
    return s.lane[0];
  }
};

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_LANES_SCALAR_H_
