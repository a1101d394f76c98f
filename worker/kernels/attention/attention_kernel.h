// The attention kernels, written once over lanes (lanes.h): each instruction
// set's file instantiates them with its own.
#ifndef BATON_WORKER_KERNELS_ATTENTION_ATTENTION_KERNEL_H_
#define BATON_WORKER_KERNELS_ATTENTION_ATTENTION_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#include "worker/kernels/lanes.h"

namespace baton::worker {

inline constexpr size_t kKeys = 64;  // of a block

template <typename Lanes>
void Widen(const uint16_t* in, float* out, size_t count) {
  for (size_t i = 0; i < count; i += kLanes) {
    Lanes::LoadHalf(in + i).Store(out + i);
  }
}

template <typename Lanes>
void Narrow(const float* in, uint16_t* out, size_t count) {
  for (size_t i = 0; i < count; i += kLanes) {
    Lanes::Load(in + i).StoreHalf(out + i);
  }
}

template <typename Lanes>
void Score(const float* q, const float* k, size_t dim, size_t keys, float scale,
           float* scores) {
  for (size_t j = 0; j < keys; j += 4) {
    const float* k0 = k + j * dim;
    const float* k1 = k0 + dim;
    const float* k2 = k1 + dim;
    const float* k3 = k2 + dim;
    Lanes s0 = Lanes::Zero(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t d = 0; d < dim; d += kLanes) {
      const Lanes query = Lanes::Load(q + d);
      s0 = Lanes::MultiplyAdd(query, Lanes::Load(k0 + d), s0);
      s1 = Lanes::MultiplyAdd(query, Lanes::Load(k1 + d), s1);
      s2 = Lanes::MultiplyAdd(query, Lanes::Load(k2 + d), s2);
      s3 = Lanes::MultiplyAdd(query, Lanes::Load(k3 + d), s3);
    }
    Lanes::Sum4(s0, s1, s2, s3, scale, scores + j);
  }
}

template <typename Lanes>
float Soften(float* scores, size_t keys, float* maximum, float* sum) {
  constexpr float kMinusInfinity = -__builtin_inff();
  for (size_t j = keys; j < kKeys; ++j) scores[j] = kMinusInfinity;
  Lanes largest = Lanes::Load(scores);
  for (size_t j = kLanes; j < kKeys; j += kLanes) {
    largest = Lanes::Max(largest, Lanes::Load(scores + j));
  }
  const float block_maximum = largest.Largest();
  const float before = *maximum;
  const float now = before > block_maximum ? before : block_maximum;
  const Lanes shift = Lanes::Broadcast(-now);
  Lanes total = Lanes::Zero();
  for (size_t j = 0; j < kKeys; j += kLanes) {
    const Lanes weight =
        ExpOfNegative(Lanes::Add(Lanes::Load(scores + j), shift));
    weight.Store(scores + j);
    total = Lanes::Add(total, weight);
  }
  alignas(64) float factor[kLanes];
  ExpOfNegative(Lanes::Add(Lanes::Broadcast(before), shift)).Store(factor);
  *maximum = now;
  *sum = *sum * factor[0] + total.Sum();
  return factor[0];
}

// `Queries` accumulators, 16 dimensions at a time, so that all of them stay in
// registers over the loop of positions.
template <typename Lanes, size_t Queries>
BATON_INLINE void GatherStrip(const float* weights, const float* factors,
                              const float* v, size_t dim, size_t keys,
                              float* acc) {
  for (size_t d = 0; d < dim; d += kLanes) {
    Lanes a[Queries];
    for (size_t i = 0; i < Queries; ++i) {
      a[i] = Lanes::Multiply(Lanes::Load(acc + i * dim + d),
                             Lanes::Broadcast(factors[i]));
    }
    for (size_t j = 0; j < keys; ++j) {
      const Lanes value = Lanes::Load(v + j * dim + d);
      for (size_t i = 0; i < Queries; ++i) {
        a[i] = Lanes::MultiplyAdd(Lanes::Broadcast(weights[i * kKeys + j]),
                                  value, a[i]);
      }
    }
    for (size_t i = 0; i < Queries; ++i) a[i].Store(acc + i * dim + d);
  }
}

template <typename Lanes>
void Gather(const float* weights, const float* factors, const float* v,
            size_t dim, size_t keys, size_t queries, float* acc) {
  size_t i = 0;
  for (; i + 4 <= queries; i += 4) {
    GatherStrip<Lanes, 4>(weights + i * kKeys, factors + i, v, dim, keys,
                          acc + i * dim);
  }
  weights += i * kKeys;
  factors += i;
  acc += i * dim;
  switch (queries - i) {
    case 1:
      return GatherStrip<Lanes, 1>(weights, factors, v, dim, keys, acc);
    case 2:
      return GatherStrip<Lanes, 2>(weights, factors, v, dim, keys, acc);
    case 3:
      return GatherStrip<Lanes, 3>(weights, factors, v, dim, keys, acc);
  }
}

#define BATON_ATTENTION_FORMS(Lanes) \
  { Widen<Lanes>, Narrow<Lanes>, Score<Lanes>, Soften<Lanes>, Gather<Lanes> }

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_ATTENTION_KERNEL_H_
