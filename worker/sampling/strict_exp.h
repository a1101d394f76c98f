// exp in double from additions and multiplications only, in one fixed order.
// libm's exp differs between machines in the last bit (it picks fused code at
// run time), which could change a drawn token. Thread-safe.
#ifndef BATON_WORKER_SAMPLING_STRICT_EXP_H_
#define BATON_WORKER_SAMPLING_STRICT_EXP_H_

#include <bit>
#include <cstdint>

namespace baton::worker {

// The lowest argument; e^ it is about 3e-308.
inline constexpr double kLowestExponent = -708.0;

// e^x for kLowestExponent <= x <= 0, relative error below 4.5e-16; e^0 is
// exactly 1. Straight-line code, so that loops vectorise.
inline double StrictExpInRange(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits: n * it is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer
  const double shifted = x * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // Taylor to r^13 with |r| <= ln(2)/2: the remainder is below 5e-18.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // The low bits of `shifted` hold n; moved to the exponent they scale by 2^n.
  const uint64_t scaled =
      std::bit_cast<uint64_t>(p) + (std::bit_cast<uint64_t>(shifted) << 52);
  return std::bit_cast<double>(scaled);
}

// As above for any x <= 0, -infinity included: below kLowestExponent it stays
// at its floor, which is nothing beside the 1 that is in every sum.
inline double StrictExp(double x) {
  return StrictExpInRange(x < kLowestExponent ? kLowestExponent : x);
}

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_STRICT_EXP_H_
