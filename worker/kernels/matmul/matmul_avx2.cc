// Compiled with AVX2, FMA and F16C; entered only where CPUID reports them.
//
// Lanes are outputs: eight weight rows lie in the eight 32-bit lanes of a
// register, so that the float operations of an output are those of the scalar
// form, and no sum runs across lanes but the exact integer ones.
//
// Many rows: a tile of 16 weight rows is unpacked once, interleaved four bytes
// a lane, and each activation is broadcast four bytes at a time. Few rows: the
// weights are read once in their own order, and the partial integer sums of
// eight weight rows are turned into lanes.
#include "worker/kernels/matmul/avx2_panel.h"
#include "worker/kernels/matmul/avx2_values.h"
#include "worker/kernels/matmul/float_matmul.h"

namespace baton::worker {
namespace {

// Weight rows that are read side by side the hardware's prefetchers do not
// follow; what comes next lies behind them in the file.
template <size_t kBytes>
BATON_INLINE void Prefetch(const uint8_t* at) {
#pragma GCC unroll 4
  for (size_t i = 0; i < kBytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T0);
  }
}

// The places of an activation row's parts; see weight_format.h.
struct Activation {
  const int8_t* q;
  const uint8_t* d;
  const uint8_t* sums;   // s of a small block, int16 sums of a large one
  const uint8_t* whole;  // int32 sums of small blocks
};
BATON_INLINE Activation ActivationOf(const TileTask& task, size_t row,
                                     size_t block_values) {
  const uint8_t* base = task.activations + row * task.activation_stride;
  const size_t blocks = task.columns / block_values;
  return {reinterpret_cast<const int8_t*>(base), base + task.columns,
          base + task.columns + 4 * blocks, base + task.columns + 8 * blocks};
}

// What follows the integer sums of eight outputs: the float operations.
template <typename Format>
BATON_INLINE __m256 AddBlock(__m256i whole, __m256i least_sum, __m256 d,
                             __m256 least, const Activation& activation,
                             size_t block, __m256 sum) {
  const __m256 scale = _mm256_set1_ps(LoadFloat(activation.d + 4 * block));
  sum =
      _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(d, scale), sum);
  if constexpr (Format::kMinimum == Minimum::kFloat) {
    sum = _mm256_fmadd_ps(
        least, _mm256_set1_ps(LoadFloat(activation.sums + 4 * block)), sum);
  }
  if constexpr (Format::kMinimum == Minimum::kIntegers) {
    sum = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(least_sum),
                           _mm256_mul_ps(least, scale), sum);
  }
  return sum;
}

// --- Many rows

// kRows activation rows times an unpacked block. Four rows and both halves keep
// eight 16-bit sums in registers.
template <typename Format, size_t kRows>
BATON_INLINE void MultiplyUnpacked(const Unpacked<Format>& w, size_t block,
                                   const Activation* activations,
                                   __m256 (*sums)[kHalves]) {
  constexpr size_t kGroupCount = Format::kValues / 4;
  // A float block without scales is one sub-block.
  constexpr size_t kSubGroups =
      kGroupCount / (Format::kSubBlocks == 0 ? 1 : Format::kSubBlocks);
  const __m256i ones = _mm256_set1_epi16(1);
  const int8_t* q[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    q[r] = activations[r].q + block * Format::kValues;
  }
  __m256i whole[kRows][kHalves];
#pragma GCC unroll 1
  for (size_t first = 0; first < kGroupCount; first += Format::kGroups) {
    __m256i low[kRows], high[kRows];
#pragma GCC unroll 8
    for (size_t i = 0; i < Format::kGroups; ++i) {
      const __m256i low_values = LoadAll(w.values[first + i][0]);
      const __m256i high_values = LoadAll(w.values[first + i][8]);
#pragma GCC unroll 4
      for (size_t r = 0; r < kRows; ++r) {
        const __m256i activation = Broadcast(q[r] + 4 * (first + i));
        const __m256i low_pairs = Pairs<Format>(low_values, activation);
        const __m256i high_pairs = Pairs<Format>(high_values, activation);
        low[r] = i == 0 ? low_pairs : _mm256_add_epi16(low[r], low_pairs);
        high[r] = i == 0 ? high_pairs : _mm256_add_epi16(high[r], high_pairs);
        // Keeps the compiler from loading all groups first and spilling.
        asm volatile("" : "+x"(low[r]), "+x"(high[r]));
      }
    }
    const size_t sub = first / kSubGroups;
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      const __m256i low_sum = _mm256_madd_epi16(
          low[r], Format::kSubBlocks == 0 ? ones : LoadAll(w.scales[sub][0]));
      const __m256i high_sum = _mm256_madd_epi16(
          high[r], Format::kSubBlocks == 0 ? ones : LoadAll(w.scales[sub][8]));
      whole[r][0] =
          first == 0 ? low_sum : _mm256_add_epi32(whole[r][0], low_sum);
      whole[r][1] =
          first == 0 ? high_sum : _mm256_add_epi32(whole[r][1], high_sum);
    }
  }
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (size_t half = 0; half < kHalves; ++half) {
      __m256i least_sum = _mm256_setzero_si256();
      if constexpr (Format::kMinimum == Minimum::kIntegers) {
        for (size_t j = 0; j < 4; ++j) {
          least_sum = _mm256_add_epi32(
              least_sum, _mm256_madd_epi16(
                             LoadAll(w.minima[j][8 * half]),
                             _mm256_set1_epi32(LoadInt(activations[r].sums +
                                                       16 * block + 4 * j))));
        }
      }
      if constexpr (Format::kOffset != 0) {
        whole[r][half] = _mm256_sub_epi32(
            whole[r][half],
            _mm256_set1_epi32(Format::kOffset *
                              LoadInt(activations[r].whole + 4 * block)));
      }
      sums[r][half] = AddBlock<Format>(whole[r][half], least_sum,
                                       _mm256_load_ps(w.d + 8 * half),
                                       _mm256_load_ps(w.least + 8 * half),
                                       activations[r], block, sums[r][half]);
    }
  }
}

// A panel of unpacked blocks stays in the first-level cache.
template <typename Format>
constexpr size_t kPanelBlocks = 20480 / sizeof(Unpacked<Format>) == 0
                                    ? 1
                                    : 20480 / sizeof(Unpacked<Format>);

template <typename Format, size_t kRows>
BATON_INLINE void MultiplyPanel(const TileTask& task,
                                const Unpacked<Format>* panel, size_t first,
                                size_t count, size_t row) {
  Activation activations[kRows];
  __m256 sums[kRows][kHalves];
  float* out = task.out + row * task.out_stride;
  for (size_t r = 0; r < kRows; ++r) {
    activations[r] = ActivationOf(task, row + r, Format::kValues);
    for (size_t half = 0; half < kHalves; ++half) {
      sums[r][half] =
          first == 0 ? _mm256_setzero_ps()
                     : _mm256_loadu_ps(out + r * task.out_stride + 8 * half);
    }
  }
  // The next tile's weights come while the first rows are multiplied.
  const uint8_t* ahead = task.weights + kTileOutputs * task.weight_stride;
  constexpr size_t kBytes = kTileOutputs * sizeof(typename Format::Block);
  for (size_t i = 0; i < count; ++i) {
    if (row == 0) {
      Prefetch<kBytes>(ahead + (first + i) * kBytes);
    }
    MultiplyUnpacked<Format, kRows>(panel[i], first + i, activations, sums);
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t half = 0; half < kHalves; ++half) {
      _mm256_storeu_ps(out + r * task.out_stride + 8 * half, sums[r][half]);
    }
  }
}

template <typename Format>
void MultiplyMany(const TileTask& task) {
  Unpacked<Format> panel[kPanelBlocks<Format>];
  const size_t blocks = task.columns / Format::kValues;
  for (size_t first = 0; first < blocks; first += kPanelBlocks<Format>) {
    const size_t count = blocks - first < kPanelBlocks<Format>
                             ? blocks - first
                             : kPanelBlocks<Format>;
    for (size_t i = 0; i < count; ++i) Unpack(task, first + i, &panel[i]);
    size_t row = 0;
    for (; row + 4 <= task.rows; row += 4) {
      MultiplyPanel<Format, 4>(task, panel, first, count, row);
    }
    if (row + 2 <= task.rows) {
      MultiplyPanel<Format, 2>(task, panel, first, count, row);
      row += 2;
    }
    for (; row < task.rows; ++row) {
      MultiplyPanel<Format, 1>(task, panel, first, count, row);
    }
  }
}

// --- Few rows

// Lane i of the result: the sum of all lanes of parts[i].
BATON_INLINE __m256i SumLanes(const __m256i* parts) {
  const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]),
                                      _mm256_hadd_epi32(parts[2], parts[3]));
  const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(parts[4], parts[5]),
                                      _mm256_hadd_epi32(parts[6], parts[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}

// For sub-block `sub` of 32 values: byte shuffles that move its scale, or its
// two, to the upper half of every 16-bit lane.
struct ScalePicks {
  alignas(32) uint16_t lanes[8][16];
  constexpr explicit ScalePicks(size_t scales_each) : lanes() {
    for (size_t sub = 0; sub < 8; ++sub) {
      for (size_t i = 0; i < 16; ++i) {
        const size_t at = scales_each * sub + (i < 8 ? 0 : scales_each - 1);
        lanes[sub][i] = static_cast<uint16_t>(at << 8 | 0x80);
      }
    }
  }
};
constexpr ScalePicks kOneScale(1), kTwoScales(2);

// The scales of sub-block `sub`, one a 16-bit lane; `scales` twice.
template <typename Format>
BATON_INLINE __m256i Factor(__m256i scales, size_t sub) {
  const ScalePicks& picks = Format::kSubBlocks == 8 ? kOneScale : kTwoScales;
  return _mm256_srai_epi16(
      _mm256_shuffle_epi8(scales, LoadAll(picks.lanes[sub])), 8);
}

// kRows activation rows times the eight weight rows at `blocks`; `ahead` is
// what will be read next.
template <typename Format, size_t kRows>
BATON_INLINE void MultiplyBlocks(const typename Format::Block* const* blocks,
                                 size_t block, const Activation* activations,
                                 const uint8_t* ahead, __m256* sums) {
  using Block = typename Format::Block;
  constexpr bool kLarge = Format::kValues > 32;
  const uint8_t* next = ahead + 8 * block * sizeof(Block);
  // At once or, where a block is longer than a cache line, bit by bit.
  if constexpr (!kLarge) Prefetch<8 * sizeof(Block)>(next);
  __m256i parts[kRows][8];
  __m256i least_parts[kRows][8];
  alignas(16) uint16_t d[8];
  alignas(16) uint16_t least[8] = {};
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; ++i) {
    const Block& w = blocks[i][block];
    if constexpr (kLarge) {
      Prefetch<sizeof(Block)>(next + i * sizeof(Block));
    }
    d[i] = w.d;
    if constexpr (Format::kMinimum != Minimum::kNone) {
      least[i] = Format::Least(w);
    }
    __m128i scales = _mm_setzero_si128();
    if constexpr (Format::kSubBlocks > 0) scales = Format::Scales(w);
#pragma GCC unroll 8
    for (size_t sub = 0; sub < Format::kValues / 32; ++sub) {
      const __m256i values = Format::Values(w, sub);
      __m256i factor = _mm256_set1_epi16(1);
      if constexpr (Format::kSubBlocks > 0) {
        factor = Factor<Format>(_mm256_set_m128i(scales, scales), sub);
      }
      for (size_t r = 0; r < kRows; ++r) {
        const __m256i activation =
            LoadAll(activations[r].q + block * Format::kValues + 32 * sub);
        const __m256i products =
            _mm256_madd_epi16(Pairs<Format>(values, activation), factor);
        parts[r][i] =
            sub == 0 ? products : _mm256_add_epi32(parts[r][i], products);
        // Keeps the compiler from holding all products before it adds them.
        if constexpr (kLarge) {
          asm volatile("" : "+x"(parts[r][i]));
        }
      }
    }
    if constexpr (Format::kMinimum == Minimum::kIntegers) {
      for (size_t r = 0; r < kRows; ++r) {
        least_parts[r][i] = _mm256_castsi128_si256(
            _mm_madd_epi16(_mm_cvtepi8_epi16(_mm_srli_si128(scales, 8)),
                           LoadHalf(activations[r].sums + 16 * block)));
        least_parts[r][i] =
            _mm256_inserti128_si256(least_parts[r][i], _mm_setzero_si128(), 1);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    __m256i whole = SumLanes(parts[r]);
    __m256i least_sum = _mm256_setzero_si256();
    if constexpr (Format::kMinimum == Minimum::kIntegers) {
      least_sum = SumLanes(least_parts[r]);
    }
    if constexpr (Format::kOffset != 0) {
      whole = _mm256_sub_epi32(
          whole, _mm256_set1_epi32(Format::kOffset *
                                   LoadInt(activations[r].whole + 4 * block)));
    }
    sums[r] = AddBlock<Format>(whole, least_sum, _mm256_cvtph_ps(LoadHalf(d)),
                               _mm256_cvtph_ps(LoadHalf(least)), activations[r],
                               block, sums[r]);
  }
}

template <typename Format, size_t kRows>
void MultiplyFew(const TileTask& task, size_t row) {
  using Block = typename Format::Block;
  Activation activations[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    activations[r] = ActivationOf(task, row + r, Format::kValues);
  }
  for (size_t first = 0; first < task.outputs; first += 8) {
    const Block* blocks[8];
    for (size_t i = 0; i < 8; ++i) {
      const size_t output =
          first + i < task.outputs ? first + i : task.outputs - 1;
      blocks[i] = reinterpret_cast<const Block*>(task.weights +
                                                 output * task.weight_stride);
    }
    __m256 sums[kRows];
    for (size_t r = 0; r < kRows; ++r) sums[r] = _mm256_setzero_ps();
    const uint8_t* ahead = task.weights + (first + 8) * task.weight_stride;
    for (size_t block = 0; block < task.columns / Format::kValues; ++block) {
      MultiplyBlocks<Format, kRows>(blocks, block, activations, ahead, sums);
    }
    for (size_t r = 0; r < kRows; ++r) {
      float* out = task.out + (row + r) * task.out_stride + first;
      if (first + 8 <= task.outputs) {
        _mm256_storeu_ps(out, sums[r]);
      } else {
        alignas(32) float lanes[8];
        _mm256_store_ps(lanes, sums[r]);
        for (size_t i = 0; first + i < task.outputs; ++i) out[i] = lanes[i];
      }
    }
  }
}

template <typename Format>
void Multiply(const TileTask& task) {
  if (task.rows >= Format::kManyRows && task.outputs == kTileOutputs) {
    MultiplyMany<Format>(task);
    return;
  }
  size_t row = 0;
  if constexpr (Format::kManyRows > 4) {
    // Not for the last five: 3 + 2 are quicker than 4 + 1.
    for (; row + 4 <= task.rows && task.rows - row != 5; row += 4) {
      MultiplyFew<Format, 4>(task, row);
    }
  }
  for (; row + 3 <= task.rows; row += 3) MultiplyFew<Format, 3>(task, row);
  if (task.rows - row == 2) MultiplyFew<Format, 2>(task, row);
  if (task.rows - row == 1) MultiplyFew<Format, 1>(task, row);
}

}  // namespace

const MatMulForms kAvx2MatMul = {
    "avx2",
    QuantiseSmallAvx2,
    QuantiseLargeAvx2,
    {Multiply<Q4_0>, Multiply<Q4_1>, Multiply<Q5_0>, Multiply<Q5_1>,
     Multiply<Q8_0>, Multiply<Iq4Nl>, Multiply<Q4K>, Multiply<Q5K>,
     Multiply<Q6K>, Multiply<Iq4Xs>, MultiplyF32Avx2, MultiplyF16Avx2,
     MultiplyBf16Avx2}};

}  // namespace baton::worker
