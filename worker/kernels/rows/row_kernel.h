// The row kernels, written once over lanes (lanes.h): each instruction set's
// file instantiates them with its own. What is left of a row after whole
// vectors is padded with zeros, so that its lanes do what they do elsewhere.
//
// Doubles: sixteen doubles with Zero, AddSquares (lane i: fma(x, x, lane)) and
// Sum (SumTree).
#ifndef BATON_WORKER_KERNELS_ROWS_ROW_KERNEL_H_
#define BATON_WORKER_KERNELS_ROWS_ROW_KERNEL_H_

#include <stddef.h>

#include "worker/kernels/lanes.h"

namespace baton::worker {

template <typename Lanes>
BATON_INLINE Lanes LoadPart(const float* x, size_t count) {
  alignas(64) float padded[kLanes] = {};
  for (size_t i = 0; i < count; ++i) padded[i] = x[i];
  return Lanes::Load(padded);
}

template <typename Lanes>
BATON_INLINE void StorePart(Lanes x, size_t count, float* out) {
  alignas(64) float padded[kLanes];
  x.Store(padded);
  for (size_t i = 0; i < count; ++i) out[i] = padded[i];
}

// out[i] = operation(a[i], b[i]).
template <typename Lanes, typename Operation>
BATON_INLINE void Combine(const float* a, const float* b, size_t count,
                          float* out, Operation operation) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    operation(Lanes::Load(a + i), Lanes::Load(b + i)).Store(out + i);
  }
  if (i == count) return;
  StorePart(operation(LoadPart<Lanes>(a + i, count - i),
                      LoadPart<Lanes>(b + i, count - i)),
            count - i, out + i);
}

template <typename Lanes, typename Doubles>
void RmsNorm(const float* x, const float* weight, size_t count, float epsilon,
             float* out) {
  Doubles squares = Doubles::Zero();
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    squares.AddSquares(Lanes::Load(x + i));
  }
  if (i < count) squares.AddSquares(LoadPart<Lanes>(x + i, count - i));
  const double mean = squares.Sum() / static_cast<double>(count);
  const double root = __builtin_sqrt(mean + static_cast<double>(epsilon));
  const Lanes scale = Lanes::Broadcast(static_cast<float>(1.0 / root));
  Combine<Lanes>(x, weight, count, out, [scale](Lanes value, Lanes factor) {
    return Lanes::Multiply(Lanes::Multiply(value, scale), factor);
  });
}

template <typename Lanes>
void Add(const float* a, const float* b, size_t count, float* out) {
  Combine<Lanes>(a, b, count, out,
                 [](Lanes x, Lanes y) { return Lanes::Add(x, y); });
}

template <typename Lanes>
void SwiGlu(const float* gate, const float* up, size_t count, float* out) {
  Combine<Lanes>(gate, up, count, out, [](Lanes g, Lanes u) {
    const Lanes one = Lanes::Broadcast(1.0f);
    const Lanes exp = ExpOfNegative(Lanes::NegativeMagnitude(g));
    const Lanes above = Lanes::Multiply(g, Lanes::IfNegative(g, exp, one));
    return Lanes::Multiply(Lanes::Divide(above, Lanes::Add(one, exp)), u);
  });
}

template <typename Lanes>
BATON_INLINE Lanes Rotated(Lanes x, Lanes partner, Lanes cosine, Lanes sine) {
  return Lanes::MultiplyAdd(x, cosine, Lanes::Multiply(partner, sine));
}

template <typename Lanes>
void RotateAdjacent(const float* x, const float* cosines, const float* sines,
                    size_t count, float* out) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes value = Lanes::Load(x + i);
    Rotated(value, Lanes::SwapPairs(value), Lanes::Load(cosines + i),
            Lanes::Load(sines + i))
        .Store(out + i);
  }
  if (i == count) return;
  const size_t rest = count - i;
  const Lanes value = LoadPart<Lanes>(x + i, rest);
  StorePart(Rotated(value, Lanes::SwapPairs(value),
                    LoadPart<Lanes>(cosines + i, rest),
                    LoadPart<Lanes>(sines + i, rest)),
            rest, out + i);
}

template <typename Lanes>
BATON_INLINE void RotateHalf(const float* x, const float* partner,
                             const float* cosines, const float* sines,
                             size_t count, float* out) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Rotated(Lanes::Load(x + i), Lanes::Load(partner + i),
            Lanes::Load(cosines + i), Lanes::Load(sines + i))
        .Store(out + i);
  }
  if (i == count) return;
  const size_t rest = count - i;
  StorePart(
      Rotated(LoadPart<Lanes>(x + i, rest), LoadPart<Lanes>(partner + i, rest),
              LoadPart<Lanes>(cosines + i, rest),
              LoadPart<Lanes>(sines + i, rest)),
      rest, out + i);
}

template <typename Lanes>
void RotateHalves(const float* x, const float* cosines, const float* sines,
                  size_t count, float* out) {
  const size_t half = count / 2;
  RotateHalf<Lanes>(x, x + half, cosines, sines, half, out);
  RotateHalf<Lanes>(x + half, x, cosines + half, sines + half, half,
                    out + half);
}

#define BATON_ROW_FORMS(Lanes, Doubles)                                        \
  {                                                                            \
    RmsNorm<Lanes, Doubles>, Add<Lanes>, SwiGlu<Lanes>, RotateAdjacent<Lanes>, \
        RotateHalves<Lanes>                                                    \
  }

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ROWS_ROW_KERNEL_H_
