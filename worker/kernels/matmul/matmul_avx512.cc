// Compiled with AVX-512 F, BW, DQ, VL and VNNI; entered only where CPUID
// reports them.
//
// Lanes are outputs: 16 weight rows lie in the 16 lanes of a register, so that
// the float operations of an output are those of the scalar form. A tile's
// weights are unpacked once, some blocks at a time, into a panel that stays in
// the first-level cache; each four bytes of an activation are broadcast to its
// lanes. One row goes the same way as many: transposing the packed weights
// costs no more than adding partial sums across lanes would.
//
// vpdpbusd multiplies unsigned by signed bytes. Signed weights therefore meet
// the activation plus 128, and what that adds depends on the weights alone: it
// is taken off once a block, as the sum's start. (The other way, weights plus
// 128, would need the activation's sums over 16 values for Q6_K, which rows do
// not carry.)
#include "worker/kernels/matmul/avx512_tile.h"
#include "worker/kernels/matmul/float_matmul.h"

namespace baton::worker {
namespace {

// Columns of a panel: 24 small or 3 large blocks, 17 KB, beside 6 KB of
// activations.
constexpr size_t kPanelValues = 768;
// For few rows: smaller, so that reading and multiplying overlap.
constexpr size_t kFewPanelValues = 256;
// Activation rows that are multiplied together: one integer sum, one of a
// sub-block and one float sum each.
constexpr size_t kTileRows = 8;

// --- A tile's weights

// -128 * (sum of scale * value): see Unpacked.
template <typename Format>
BATON_INLINE void UnpackStart(typename Format::Panel* out) {
  __m512i start = _mm512_setzero_si512();
  const Group* values = out->values;
  for (size_t sub = 0; sub < Format::kValues / 4 / kSubBlockGroups<Format>;
       ++sub) {
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < kSubBlockGroups<Format>; ++i) {
      sum = _mm512_dpbusd_epi32(sum, Bytes(128), LoadLanes(*values++));
    }
    if constexpr (Format::kSubBlocks != 0) {
      sum = _mm512_mullo_epi32(sum, LoadLanes(out->scales[sub]));
    }
    start = _mm512_sub_epi32(start, sum);
  }
  StoreLanes(out->start, start);
}

template <typename Format>
BATON_INLINE void UnpackWithStart(const TileTask& task, size_t first,
                                  size_t count, typename Format::Panel* panel) {
  Unpack<Format>(task, first, count, panel);
  if constexpr (kSigned<Format>) {
    for (size_t block = 0; block < count; ++block) {
      UnpackStart<Format>(&panel[block]);
    }
  }
}

// --- Activation rows; see weight_format.h

template <size_t kRows>
struct Activations {
  alignas(64) uint8_t q[kRows][kPanelValues];  // plus 128 for signed weights
  RowScales scales[kRows];
};

template <typename Format, size_t kRows>
BATON_INLINE void LoadActivations(const TileTask& task, size_t row,
                                  size_t first, size_t count,
                                  Activations<kRows>* out) {
  const __m256i flip = _mm256_set1_epi8(kSigned<Format> ? -128 : 0);
  for (size_t r = 0; r < kRows; ++r) {
    const uint8_t* q = task.activations + (row + r) * task.activation_stride +
                       first * Format::kValues;
    for (size_t i = 0; i < count * Format::kValues; i += 32) {
      _mm256_store_si256(
          reinterpret_cast<__m256i*>(out->q[r] + i),
          _mm256_xor_si256(
              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + i)),
              flip));
    }
    out->scales[r] = ScalesOf<Format>(task, row + r, first);
  }
}

// --- Their products

// sums[r] += groups of weights times activation row r, from column `at` on.
template <typename Format, size_t kRows>
BATON_INLINE void AddProducts(const Group* values,
                              const Activations<kRows>& activations, size_t at,
                              __m512i* sums) {
#pragma GCC unroll 8
  for (size_t i = 0; i < kSubBlockGroups<Format>; ++i) {
    const __m512i weights = LoadLanes(values[i]);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const __m512i activation =
          _mm512_set1_epi32(LoadInt(activations.q[r] + at + 4 * i));
      sums[r] = kSigned<Format>
                    ? _mm512_dpbusd_epi32(sums[r], activation, weights)
                    : _mm512_dpbusd_epi32(sums[r], weights, activation);
      // Keeps the compiler from loading all groups first and spilling.
      BATON_IN_REGISTER(sums[r]);
    }
  }
}

template <typename Format, size_t kRows>
BATON_INLINE void MultiplyBlock(const typename Format::Panel& w,
                                const Activations<kRows>& activations,
                                size_t block, __m512* sums) {
  const size_t at = block * Format::kValues;
  __m512i whole[kRows];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    whole[r] = kSigned<Format> ? LoadLanes(w.start) : _mm512_setzero_si512();
  }
  if constexpr (Format::kSubBlocks == 0) {
    AddProducts<Format, kRows>(w.values, activations, at, whole);
  } else {
#pragma GCC unroll 1
    for (size_t sub = 0; sub < Format::kSubBlocks; ++sub) {
      const size_t group = sub * kSubBlockGroups<Format>;
      __m512i part[kRows];
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) part[r] = _mm512_setzero_si512();
      AddProducts<Format, kRows>(w.values + group, activations, at + 4 * group,
                                 part);
      const __m512i scale = LoadLanes(w.scales[sub]);
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        whole[r] =
            _mm512_add_epi32(whole[r], _mm512_mullo_epi32(part[r], scale));
      }
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    sums[r] =
        AddBlock<Format>(whole[r], w, activations.scales[r], block, sums[r]);
  }
}

template <typename Format, size_t kRows>
void MultiplyRows(const TileTask& task, const typename Format::Panel* panel,
                  size_t first, size_t count, size_t row) {
  Activations<kRows> activations;
  LoadActivations<Format, kRows>(task, row, first, count, &activations);
  const __mmask16 outputs = static_cast<__mmask16>((1u << task.outputs) - 1);
  float* out = task.out + row * task.out_stride;
  __m512 sums[kRows];
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    sums[r] = first == 0
                  ? _mm512_setzero_ps()
                  : _mm512_maskz_loadu_ps(outputs, out + r * task.out_stride);
  }
  for (size_t block = 0; block < count; ++block) {
    MultiplyBlock<Format, kRows>(panel[block], activations, block, sums);
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    _mm512_mask_storeu_ps(out + r * task.out_stride, outputs, sums[r]);
  }
}

template <typename Format>
void Multiply(const TileTask& task) {
  typename Format::Panel panel[kPanelValues / Format::kValues];
  const size_t panel_blocks =
      (task.rows < kTileRows ? kFewPanelValues : kPanelValues) /
      Format::kValues;
  const size_t blocks = task.columns / Format::kValues;
  for (size_t first = 0; first < blocks; first += panel_blocks) {
    const size_t count =
        blocks - first < panel_blocks ? blocks - first : panel_blocks;
    UnpackWithStart<Format>(task, first, count, panel);
    size_t row = 0;
    for (; row + kTileRows <= task.rows; row += kTileRows) {
      MultiplyRows<Format, kTileRows>(task, panel, first, count, row);
    }
    for (; row + 4 <= task.rows; row += 4) {
      MultiplyRows<Format, 4>(task, panel, first, count, row);
    }
    for (; row + 2 <= task.rows; row += 2) {
      MultiplyRows<Format, 2>(task, panel, first, count, row);
    }
    if (row < task.rows) {
      MultiplyRows<Format, 1>(task, panel, first, count, row);
    }
  }
}

}  // namespace

const MatMulForms kAvx512MatMul = {
    "avx512vnni",
    QuantiseSmallAvx2,
    QuantiseLargeAvx2,
    {Multiply<Q4_0>, Multiply<Q4_1>, Multiply<Q5_0>, Multiply<Q5_1>,
     Multiply<Q8_0>, Multiply<Iq4Nl>, Multiply<Q4K>, Multiply<Q5K>,
     Multiply<Q6K>, Multiply<Iq4Xs>, MultiplyF32Avx2, MultiplyF16Avx2,
     MultiplyBf16Avx2}};

}  // namespace baton::worker
