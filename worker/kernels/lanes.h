// What kernels share that are written once over a vector of 16 lanes. Each
// instruction set has a `Lanes` in an anonymous namespace (lanes_scalar.h,
// lanes_avx2.h), so that every copy stays inside its file.
//
// Lanes: Load, LoadHalf, StoreHalf, Store, Broadcast, Zero, Add, Multiply,
// MultiplyAdd (one rounding), Max (a > b ? a : b), RoundToInteger, ExpBits
// (2^n for integral n in [-126, 127]), ZeroBelow (x < limit ? 0 : y), Sum
// (a tree: lane i + lane i+8, then i + i+4, i + i+2, i + i+1), Largest;
// kRegisters, how many of the machine's they take. Only the kernels in rows/
// use Divide, NegativeMagnitude (-|x|), IfNegative (x < 0 ? y : z) and
// SwapPairs (lane i from lane i^1).
#ifndef BATON_WORKER_KERNELS_LANES_H_
#define BATON_WORKER_KERNELS_LANES_H_

#include <stddef.h>

#define BATON_INLINE inline __attribute__((always_inline))

namespace baton::worker {

inline constexpr size_t kLanes = 16;

// exp(x) for x <= 0. Cody-Waite reduction by ln 2 in two parts, then the
// Taylor polynomial of degree 7 on [-ln 2 / 2, ln 2 / 2]: relative error below
// 2e-7. Below -87 the result is 0, so that 2^n stays a normal number.
template <typename Lanes>
BATON_INLINE Lanes ExpOfNegative(Lanes x) {
  const Lanes n = Lanes::RoundToInteger(
      Lanes::Multiply(x, Lanes::Broadcast(1.44269504088896341f)));
  Lanes r = Lanes::MultiplyAdd(n, Lanes::Broadcast(-0.693145751953125f), x);
  r = Lanes::MultiplyAdd(n, Lanes::Broadcast(-1.42860682030941723e-6f), r);
  Lanes p = Lanes::Broadcast(1.0f / 5040);
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(1.0f / 720));
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(1.0f / 120));
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(1.0f / 24));
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(1.0f / 6));
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(0.5f));
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(1.0f));
  p = Lanes::MultiplyAdd(p, r, Lanes::Broadcast(1.0f));
  return Lanes::ZeroBelow(x, -87.0f, Lanes::Multiply(p, Lanes::ExpBits(n)));
}

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_LANES_H_
