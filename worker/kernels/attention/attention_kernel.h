// The attention kernels, written once over lanes (lanes.h): each instruction
// set's file instantiates them with its own.
#ifndef BATON_WORKER_KERNELS_ATTENTION_ATTENTION_KERNEL_H_
#define BATON_WORKER_KERNELS_ATTENTION_ATTENTION_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/lanes.h"

namespace baton::worker {

inline constexpr size_t kKeys = 64;  // of a block

// The cache line of `next` that corresponds to element i, once a line; into the
// second cache, since the first is full of what is at hand.
template <typename Element>
BATON_INLINE void Prefetch(const Element* next, size_t i) {
  if (i % (64 / sizeof(Element)) == 0) __builtin_prefetch(next + i, 0, 2);
}

// The definition; half precision has vector forms (transpose_x86.h).
template <typename Element>
BATON_INLINE void TransposeScalar(const Element* in, size_t dim, size_t keys,
                                  Element* out) {
  const size_t rows = (keys + kLanes - 1) / kLanes * kLanes;
  for (size_t j = 0; j < rows; ++j) {
    for (size_t d = 0; d < dim; ++d) {
      out[d * kKeys + j] = in[j * dim + d];
    }
  }
}

template <typename Lanes>
BATON_INLINE Lanes LoadSingle(const float* p) {
  return Lanes::Load(p);
}
template <typename Lanes>
BATON_INLINE Lanes LoadSingle(const uint16_t* p) {
  return Lanes::LoadHalf(p);
}

template <typename Lanes>
void Narrow(const float* in, uint16_t* out, size_t count) {
  for (size_t i = 0; i < count; i += kLanes) {
    Lanes::Load(in + i).StoreHalf(out + i);
  }
}

template <typename Lanes, typename Element>
void Pack(const Element* in, const Element* next, size_t stride, size_t rows,
          size_t columns, float* out) {
  for (size_t j = 0; j < rows; ++j) {
    for (size_t c = 0; c < columns; c += kLanes) {
      if (next != nullptr) Prefetch(next, j * stride + c);
      LoadSingle<Lanes>(in + j * stride + c)
          .Store(out + (c / kPanelColumns * rows + j) * kPanelColumns +
                 c % kPanelColumns);
    }
  }
}

// `Rows` by `Vectors` accumulators, which stay in registers over the whole sum.
template <typename Lanes, size_t Rows, size_t Vectors, typename Element>
BATON_INLINE void MultiplyTile(const AttentionProduct& product,
                               const Element* b, const Element* next,
                               size_t b_stride, size_t row, size_t column) {
  const float* a = product.a + row * product.a_stride;
  float* c = product.c + row * product.c_stride + column;
  Lanes sums[Rows][Vectors];
  for (size_t i = 0; i < Rows; ++i) {
    for (size_t v = 0; v < Vectors; ++v) {
      sums[i][v] = product.factors == nullptr
                       ? Lanes::Zero()
                       : Lanes::Multiply(
                             Lanes::Load(c + i * product.c_stride + v * kLanes),
                             Lanes::Broadcast(product.factors[row + i]));
    }
  }
  for (size_t j = 0; j < product.inner; ++j) {
    Lanes factors[Rows];
    for (size_t i = 0; i < Rows; ++i) {
      factors[i] = Lanes::Broadcast(a[i * product.a_stride + j]);
    }
    for (size_t v = 0; v < Vectors; ++v) {
      if (next != nullptr) Prefetch(next, j * b_stride + v * kLanes);
      const Lanes values = LoadSingle<Lanes>(b + j * b_stride + v * kLanes);
      for (size_t i = 0; i < Rows; ++i) {
        sums[i][v] = Lanes::MultiplyAdd(factors[i], values, sums[i][v]);
      }
    }
  }
  for (size_t i = 0; i < Rows; ++i) {
    for (size_t v = 0; v < Vectors; ++v) {
      sums[i][v].Store(c + i * product.c_stride + v * kLanes);
    }
  }
}

// One panel for all rows, so that it stays in the first cache.
template <typename Lanes, size_t Vectors>
BATON_INLINE void MultiplyPanel(const AttentionProduct& product,
                                const float* panel, size_t column) {
  constexpr const float* kNone = nullptr;
  constexpr size_t kMost = 6 / Lanes::kRegisters;
  size_t row = 0;
  const auto left = [&] { return product.rows - row; };
  for (; left() >= kMost && left() != kMost + 1; row += kMost) {
    MultiplyTile<Lanes, kMost, Vectors>(product, panel, kNone, kPanelColumns,
                                        row, column);
  }
  for (; left() > 4 || left() == 3; row += 3) {
    MultiplyTile<Lanes, 3, Vectors>(product, panel, kNone, kPanelColumns, row,
                                    column);
  }
  for (; left() >= 2; row += 2) {
    MultiplyTile<Lanes, 2, Vectors>(product, panel, kNone, kPanelColumns, row,
                                    column);
  }
  if (left() == 1) {
    MultiplyTile<Lanes, 1, Vectors>(product, panel, kNone, kPanelColumns, row,
                                    column);
  }
}

template <typename Lanes>
void Multiply(const AttentionProduct& product, const float* panels,
              size_t panel_rows) {
  size_t column = 0;
  for (; column + kPanelColumns <= product.columns; column += kPanelColumns) {
    MultiplyPanel<Lanes, kPanelColumns / kLanes>(product, panels, column);
    panels += panel_rows * kPanelColumns;
  }
  if (column < product.columns)
    MultiplyPanel<Lanes, 1>(product, panels, column);
}

template <typename Lanes, size_t Rows, size_t Vectors>
BATON_INLINE void MultiplyStrips(const AttentionProduct& product,
                                 const uint16_t* b, const uint16_t* next,
                                 size_t stride) {
  size_t column = 0;
  for (; column + Vectors * kLanes <= product.columns;
       column += Vectors * kLanes) {
    MultiplyTile<Lanes, Rows, Vectors>(product, b + column,
                                       next == nullptr ? next : next + column,
                                       stride, 0, column);
  }
  for (; column < product.columns; column += kLanes) {
    MultiplyTile<Lanes, Rows, 1>(product, b + column,
                                 next == nullptr ? next : next + column, stride,
                                 0, column);
  }
}

template <typename Lanes>
void MultiplyFew(const AttentionProduct& product, const uint16_t* b,
                 const uint16_t* next, size_t stride) {
  switch (product.rows) {
    case 1:
      return MultiplyStrips<Lanes, 1, 4>(product, b, next, stride);
    case 2:
      return MultiplyStrips<Lanes, 2, 2>(product, b, next, stride);
    case 3:
      return MultiplyStrips<Lanes, 3, 2>(product, b, next, stride);
    case 4:
      return MultiplyStrips<Lanes, 4, 1>(product, b, next, stride);
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

#define BATON_ATTENTION_FORMS(Lanes)                                   \
  {                                                                    \
    Narrow<Lanes>, TransposeSingle, TransposeHalf, Pack<Lanes, float>, \
        Pack<Lanes, uint16_t>, Multiply<Lanes>, MultiplyFew<Lanes>,    \
        Soften<Lanes>                                                  \
  }

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_ATTENTION_KERNEL_H_
