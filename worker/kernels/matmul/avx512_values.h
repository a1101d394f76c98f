// How each weight format becomes a panel of 16 outputs in AVX-512 registers;
// see avx512_lanes.h for who may include this.
//
// Weight rows are transposed as they lie in the file, four bytes an output,
// before anything is unpacked: nibbles, bit fields, scales and half-precision
// numbers of 16 outputs are then decoded at once, each output in its own lane.
#ifndef BATON_WORKER_KERNELS_MATMUL_AVX512_VALUES_H_
#define BATON_WORKER_KERNELS_MATMUL_AVX512_VALUES_H_

#include "worker/kernels/matmul/avx512_lanes.h"

namespace baton::worker {
namespace {

enum class Minimum { kNone, kFloat, kIntegers };

// Each format: Unpack fills values, d and, where it has them, least, scales
// and minima of a panel.

struct Q4_0 {
  using Block = BlockQ4_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    Nibbles(rows, 2, [&](size_t group, __m512i nibbles) {
      StoreLanes(out->values[group], _mm512_sub_epi8(nibbles, Bytes(8)));
    });
  }
};
struct Q4_1 {
  using Block = BlockQ4_1;
  static constexpr size_t kValues = 32, kSubBlocks = 0;
  static constexpr Minimum kMinimum = Minimum::kFloat;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    StoreHalves(_mm512_srli_epi32(head[0], 16), out->least);
    Nibbles(rows, 4, [&](size_t group, __m512i nibbles) {
      StoreLanes(out->values[group], nibbles);
    });
  }
};
struct Q5_0 {
  using Block = BlockQ5_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    const __m512i bits = _mm512_or_si512(_mm512_srli_epi32(head[0], 16),
                                         _mm512_slli_epi32(head[1], 16));
    Nibbles(rows, 6, [&](size_t group, __m512i nibbles) {
      const __mmask64 small = ~FifthBits(bits, group);
      StoreLanes(out->values[group],
                 _mm512_mask_sub_epi8(nibbles, small, nibbles, Bytes(16)));
    });
  }
};
struct Q5_1 {
  using Block = BlockQ5_1;
  static constexpr size_t kValues = 32, kSubBlocks = 0;
  static constexpr Minimum kMinimum = Minimum::kFloat;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    StoreHalves(_mm512_srli_epi32(head[0], 16), out->least);
    Nibbles(rows, 8, [&](size_t group, __m512i nibbles) {
      StoreLanes(out->values[group],
                 _mm512_mask_add_epi8(nibbles, FifthBits(head[1], group),
                                      nibbles, Bytes(16)));
    });
  }
};
struct Q8_0 {
  using Block = BlockQ8_0;
  static constexpr size_t kValues = 32, kSubBlocks = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4], values[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    for (size_t half = 0; half < 2; ++half) {
      Columns(rows, 2 + 16 * half, values);
      for (size_t i = 0; i < 4; ++i) {
        StoreLanes(out->values[4 * half + i], values[i]);
      }
    }
  }
};
struct Iq4Nl {
  using Block = BlockIq4Nl;
  static constexpr size_t kValues = 32, kSubBlocks = 0;
  static constexpr Minimum kMinimum = Minimum::kNone;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    Nibbles(rows, 2, [&](size_t group, __m512i nibbles) {
      StoreLanes(out->values[group], Iq4(nibbles));
    });
  }
};
// The common head of Q4_K and Q5_K: d, dmin and the six-bit pairs.
template <typename Panel>
BATON_INLINE void UnpackHead(const Rows& rows, Panel* out) {
  __m512i head[4];
  Columns(rows, 0, head);
  StoreHalves(head[0], out->d);
  StoreHalves(_mm512_srli_epi32(head[0], 16), out->least);
  SixBitPairs(head + 1, out);
}
struct Q4K {
  using Block = BlockQ4K;
  static constexpr size_t kValues = 256, kSubBlocks = 8;
  static constexpr Minimum kMinimum = Minimum::kIntegers;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    UnpackHead(rows, out);
    for (size_t i = 0; i < 8; ++i) {
      __m512i packed[4];
      Columns(rows, 16 + 16 * i, packed);
      // 32 bytes hold two sub-blocks, the even one in the low nibbles.
      Group* values = out->values + 16 * (i / 2) + 4 * (i % 2);
      for (size_t k = 0; k < 4; ++k) {
        StoreLanes(values[k], LowNibbles(packed[k]));
        StoreLanes(values[k + 8], HighNibbles(packed[k]));
      }
    }
  }
};
struct Q5K {
  using Block = BlockQ5K;
  static constexpr size_t kValues = 256, kSubBlocks = 8;
  static constexpr Minimum kMinimum = Minimum::kIntegers;
  using Panel = Unpacked<kValues, kSubBlocks>;
  // The nibbles, plus 16 where bit `sub` is set.
  static BATON_INLINE __m512i Add(__m512i nibbles, __m512i bits, size_t sub) {
    return _mm512_mask_add_epi8(nibbles,
                                _mm512_test_epi8_mask(bits, Bytes(1 << sub)),
                                nibbles, Bytes(16));
  }
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    UnpackHead(rows, out);
    for (size_t half = 0; half < 2; ++half) {
      __m512i bits[4];
      Columns(rows, 16 + 16 * half, bits);
      for (size_t pair = 0; pair < 4; ++pair) {
        __m512i packed[4];
        Columns(rows, 48 + 32 * pair + 16 * half, packed);
        Group* values = out->values + 16 * pair + 4 * half;
        for (size_t k = 0; k < 4; ++k) {
          StoreLanes(values[k], Add(LowNibbles(packed[k]), bits[k], 2 * pair));
          StoreLanes(values[k + 8],
                     Add(HighNibbles(packed[k]), bits[k], 2 * pair + 1));
        }
      }
    }
  }
};
struct Q6K {
  using Block = BlockQ6K;
  static constexpr size_t kValues = 256, kSubBlocks = 16;
  static constexpr Minimum kMinimum = Minimum::kNone;
  using Panel = Unpacked<kValues, kSubBlocks>;
  // `pairs` has the values' upper two bits where 0x30 is.
  static BATON_INLINE void Store(__m512i nibbles, __m512i pairs, Group* out) {
    const __m512i high = _mm512_and_si512(pairs, Bytes(0x30));
    StoreLanes(*out,
               _mm512_sub_epi8(_mm512_or_si512(nibbles, high), Bytes(32)));
  }
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i scales[4], tail[4];
    Columns(rows, 192, scales);
    for (size_t i = 0; i < 4; ++i) {
      for (size_t k = 0; k < 4; ++k) {
        const __m512i byte = _mm512_and_si512(scales[i], Ints(255));
        StoreLanes(
            out->scales[4 * i + k],
            _mm512_sub_epi32(_mm512_xor_si512(byte, Ints(128)), Ints(128)));
        scales[i] = _mm512_srli_epi32(scales[i], 8);
      }
    }
    // d is the block's last two bytes.
    Columns(rows, sizeof(Block) - 16, tail);
    StoreHalves(_mm512_srli_epi32(tail[3], 16), out->d);
    for (size_t i = 0; i < 4; ++i) {  // 16 values of each quarter of a half
      const size_t half = i / 2, at = 16 * (i % 2);
      __m512i even[4], odd[4], pairs[4];
      Columns(rows, 64 * half + at, even);
      Columns(rows, 64 * half + 32 + at, odd);
      Columns(rows, 128 + 32 * half + at, pairs);
      Group* values = out->values + 32 * half + at / 4;
      for (size_t k = 0; k < 4; ++k) {
        Store(LowNibbles(even[k]), _mm512_slli_epi16(pairs[k], 4), values + k);
        Store(LowNibbles(odd[k]), _mm512_slli_epi16(pairs[k], 2),
              values + 8 + k);
        Store(HighNibbles(even[k]), pairs[k], values + 16 + k);
        Store(HighNibbles(odd[k]), _mm512_srli_epi16(pairs[k], 2),
              values + 24 + k);
      }
    }
  }
};
struct Iq4Xs {
  using Block = BlockIq4Xs;
  static constexpr size_t kValues = 256, kSubBlocks = 8;
  static constexpr Minimum kMinimum = Minimum::kNone;
  using Panel = Unpacked<kValues, kSubBlocks>;
  static BATON_INLINE void Unpack(const Rows& rows, Panel* out) {
    __m512i head[4];
    Columns(rows, 0, head);
    StoreHalves(head[0], out->d);
    __m512i low = head[1], high = _mm512_srli_epi32(head[0], 12);
    for (size_t j = 0; j < 8; ++j) {
      const __m512i scale = _mm512_or_si512(_mm512_and_si512(low, Ints(15)),
                                            _mm512_and_si512(high, Ints(48)));
      StoreLanes(out->scales[j], _mm512_sub_epi32(scale, Ints(32)));
      low = _mm512_srli_epi32(low, 4);
      high = _mm512_srli_epi32(high, 2);
      Nibbles(rows, 8 + 16 * j, [&](size_t group, __m512i nibbles) {
        StoreLanes(out->values[8 * j + group], Iq4(nibbles));
      });
    }
  }
};

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_AVX512_VALUES_H_
