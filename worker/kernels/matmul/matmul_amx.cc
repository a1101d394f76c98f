// Compiled with AVX-512 as matmul_avx512.cc is, and with AMX int8; entered only
// where CPUID reports all of it and the kernel has granted the tiles.
//
// A tile register of AMX holds 16 rows of 64 bytes. The panel of avx512_lanes.h
// is such a tile as it lies: row i has the values 4i to 4i + 3 of 16 outputs.
// One instruction multiplies it with the values of up to 16 activation rows;
// the integer sums go through memory to the float operations, which are those
// of every form. Signed values need no shift here.
#include "worker/kernels/amx_intrinsics.h"
#include "worker/kernels/matmul/avx512_tile.h"
#include "worker/kernels/matmul/float_matmul.h"

namespace baton::worker {
namespace {

// As in matmul_avx512.cc.
constexpr size_t kPanelValues = 768;
constexpr size_t kTileRows = 16;
// With fewer rows a tile is mostly empty, and AVX-512 VNNI is as fast.
constexpr size_t kFewestRows = 8;

// Values that are multiplied before a scale: a small block, or a sub-block.
template <typename Format>
constexpr size_t kDepth = 4 * kSubBlockGroups<Format>;

// GCC 12's tile loads and stores say nothing to the compiler of the memory that
// they read and write.
BATON_INLINE void MemoryBarrier() { asm volatile("" ::: "memory"); }

// Palette 1: registers 0 and 1 for sums, 2 and 3 for activations, 4 and 5 for
// weights.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// GCC takes a register's number as it is written.
#define BATON_MULTIPLY_TILES(c, a, b)    \
  _tile_zero(c);                         \
  _tile_loadd(a, q, q_stride);           \
  _tile_loadd(b, values, sizeof(Group)); \
  if constexpr (kSigned<Format>) {       \
    _tile_dpbssd(c, a, b);               \
  } else {                               \
    _tile_dpbsud(c, a, b);               \
  }                                      \
  _tile_stored(c, sums, sizeof(*sums))

template <typename Format>
class Tiles {
 public:
  Tiles() {
    TileConfig config;
    for (size_t i = 0; i < 2; ++i) {
      config.rows[i] = kTileRows;
      config.row_bytes[i] = 4 * kTileOutputs;
      config.rows[i + 2] = kTileRows;
      config.row_bytes[i + 2] = kDepth<Format>;
      config.rows[i + 4] = kDepth<Format> / 4;
      config.row_bytes[i + 4] = 4 * kTileOutputs;
    }
    MemoryBarrier();
    _tile_loadconfig(&config);
  }
  // Gives the registers back: a thread that holds them is slow to switch.
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // sums[row][output] of the values of 16 rows, `q_stride` bytes apart, and of
  // the panel's groups from `values` on. Two slots, so that one product need
  // not wait for the other's registers.
  template <int kSlot>
  BATON_INLINE void Multiply(const uint8_t* q, size_t q_stride,
                             const Group* values,
                             int32_t (*sums)[kTileOutputs]) const {
    MemoryBarrier();
    if constexpr (kSlot == 0) {
      BATON_MULTIPLY_TILES(0, 2, 4);
    } else {
      BATON_MULTIPLY_TILES(1, 3, 5);
    }
    MemoryBarrier();
  }
};

// Activations of up to 16 rows. Those that a tile has no row for are zero, and
// what comes of them is dropped.
struct ActivationRows {
  const uint8_t* q;
  size_t stride;
  alignas(64) uint8_t padded[kTileRows * kPanelValues];

  ActivationRows(const TileTask& task, size_t row, size_t rows, size_t column,
                 size_t count)
      : q(task.activations + row * task.activation_stride + column),
        stride(task.activation_stride) {
    if (rows == kTileRows) return;
    __builtin_memset(padded, 0, sizeof(padded));
    for (size_t r = 0; r < rows; ++r) {
      __builtin_memcpy(padded + r * kPanelValues, q + r * stride, count);
    }
    q = padded;
    stride = kPanelValues;
  }
};

// Integer sums of one block, whose sub-blocks' are scaled.
template <typename Format>
BATON_INLINE void MultiplyBlock(const Tiles<Format>& tiles,
                                const typename Format::Panel& w,
                                const ActivationRows& activations,
                                size_t column, size_t rows,
                                int32_t (*whole)[kTileOutputs]) {
  const uint8_t* q = activations.q + column;
  if constexpr (Format::kSubBlocks == 0) {
    tiles.template Multiply<0>(q, activations.stride, w.values, whole);
  } else {
    alignas(64) int32_t parts[2][kTileRows][kTileOutputs];
    for (size_t sub = 0; sub < Format::kSubBlocks; sub += 2) {
      const Group* values = w.values + sub * kSubBlockGroups<Format>;
      q = activations.q + column + sub * kDepth<Format>;
      tiles.template Multiply<0>(q, activations.stride, values, parts[0]);
      tiles.template Multiply<1>(q + kDepth<Format>, activations.stride,
                                 values + kSubBlockGroups<Format>, parts[1]);
      const __m512i even = LoadLanes(w.scales[sub]);
      const __m512i odd = LoadLanes(w.scales[sub + 1]);
      for (size_t r = 0; r < rows; ++r) {
        const __m512i part =
            _mm512_add_epi32(_mm512_mullo_epi32(LoadLanes(parts[0][r]), even),
                             _mm512_mullo_epi32(LoadLanes(parts[1][r]), odd));
        StoreLanes(whole[r], sub == 0
                                 ? part
                                 : _mm512_add_epi32(LoadLanes(whole[r]), part));
      }
    }
  }
}

// Rows [row, row + rows) with `count` float blocks of the panel.
template <typename Format>
void MultiplyRows(const TileTask& task, const Tiles<Format>& tiles,
                  const typename Format::Panel* panel, size_t first,
                  size_t count, size_t row, size_t rows) {
  const ActivationRows activations(task, row, rows, first * Format::kValues,
                                   count * Format::kValues);
  const __mmask16 outputs = static_cast<__mmask16>((1u << task.outputs) - 1);
  float* out = task.out + row * task.out_stride;
  RowScales scales[kTileRows];
  __m512 sums[kTileRows];
  for (size_t r = 0; r < rows; ++r) {
    scales[r] = ScalesOf<Format>(task, row + r, first);
    sums[r] = first == 0
                  ? _mm512_setzero_ps()
                  : _mm512_maskz_loadu_ps(outputs, out + r * task.out_stride);
  }
  alignas(64) int32_t whole[kTileRows][kTileOutputs];
  for (size_t block = 0; block < count; ++block) {
    MultiplyBlock<Format>(tiles, panel[block], activations,
                          block * Format::kValues, rows, whole);
    for (size_t r = 0; r < rows; ++r) {
      sums[r] = AddBlock<Format>(LoadLanes(whole[r]), panel[block], scales[r],
                                 block, sums[r]);
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    _mm512_mask_storeu_ps(out + r * task.out_stride, outputs, sums[r]);
  }
}

template <typename Format, WeightFormat format>
void Multiply(const TileTask& task) {
  if (task.rows < kFewestRows) return kAvx512MatMul.multiply[format](task);
  typename Format::Panel panel[kPanelValues / Format::kValues];
  const Tiles<Format> tiles;
  const size_t blocks = task.columns / Format::kValues;
  constexpr size_t kBlocks = kPanelValues / Format::kValues;
  for (size_t first = 0; first < blocks; first += kBlocks) {
    const size_t count = blocks - first < kBlocks ? blocks - first : kBlocks;
    Unpack<Format>(task, first, count, panel);
    for (size_t row = 0; row < task.rows; row += kTileRows) {
      const size_t rows =
          task.rows - row < kTileRows ? task.rows - row : kTileRows;
      MultiplyRows<Format>(task, tiles, panel, first, count, row, rows);
    }
  }
}

}  // namespace

const MatMulForms kAmxMatMul = {
    "amx",
    QuantiseSmallAvx2,
    QuantiseLargeAvx2,
    {Multiply<Q4_0, kQ4_0>, Multiply<Q4_1, kQ4_1>, Multiply<Q5_0, kQ5_0>,
     Multiply<Q5_1, kQ5_1>, Multiply<Q8_0, kQ8_0>, Multiply<Iq4Nl, kIq4Nl>,
     Multiply<Q4K, kQ4K>, Multiply<Q5K, kQ5K>, Multiply<Q6K, kQ6K>,
     Multiply<Iq4Xs, kIq4Xs>, MultiplyF32Avx2, MultiplyF16Avx2,
     MultiplyBf16Avx2}};

}  // namespace baton::worker
