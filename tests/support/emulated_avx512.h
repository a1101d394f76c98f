// AVX-512 in portable code, for the kernels' sources (see
// worker/kernels/avx512_intrinsics.h): SIMDe, and what its version 0.7.4 lacks
// or rounds twice.
#ifndef BATON_TESTS_SUPPORT_EMULATED_AVX512_H_
#define BATON_TESTS_SUPPORT_EMULATED_AVX512_H_

#include <emmintrin.h>
// Clang declares this type there, and SIMDe once more; and it has the first of
// the comparisons there, which keeps SIMDe from naming any.
#define __m128bh SimdeM128bh
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#undef __m128bh
#ifndef _CMP_NLT_UQ
#define _CMP_NLT_UQ SIMDE_CMP_NLT_UQ
#endif

#include "worker/kernels/half.h"

// Plain integers to SIMDe, so no type of the compiler's.
#define __mmask16 ::simde__mmask16
#define __mmask64 ::simde__mmask64
#define BATON_IN_REGISTER(vector) static_cast<void>(vector)

namespace baton::emulated {

// lanes[i] = lane(i).
template <typename Vector, typename Element, typename Lane>
Vector Lanes(Lane lane) {
  Element lanes[sizeof(Vector) / sizeof(Element)];
  for (size_t i = 0; i < sizeof(Vector) / sizeof(Element); ++i) {
    lanes[i] = lane(i);
  }
  Vector vector;
  __builtin_memcpy(&vector, lanes, sizeof(vector));
  return vector;
}
template <typename Element, typename Vector>
Element Get(const Vector& vector, size_t lane) {
  Element element;
  __builtin_memcpy(
      &element, reinterpret_cast<const char*>(&vector) + lane * sizeof(element),
      sizeof(element));
  return element;
}

// a * b + c rounded once; SIMDe rounds twice where FMA is not native.
inline __m512 MultiplyAdd(__m512 a, __m512 b, __m512 c) {
  return Lanes<__m512, float>([&](size_t i) {
    return __builtin_fmaf(Get<float>(a, i), Get<float>(b, i), Get<float>(c, i));
  });
}
inline __m512 NegativeMultiplyAdd(__m512 a, __m512 b, __m512 c) {
  return Lanes<__m512, float>([&](size_t i) {
    return __builtin_fmaf(-Get<float>(a, i), Get<float>(b, i),
                          Get<float>(c, i));
  });
}
inline __m512 IntsToFloats(__m512i a) {
  return Lanes<__m512, float>(
      [&](size_t i) { return static_cast<float>(Get<int32_t>(a, i)); });
}
inline __m512i FloatsToInts(__m512 a) {
  return Lanes<__m512i, int32_t>([&](size_t i) {
    return static_cast<int32_t>(__builtin_nearbyintf(Get<float>(a, i)));
  });
}
inline __m256i IntsToShorts(__m512i a) {
  return Lanes<__m256i, int16_t>(
      [&](size_t i) { return static_cast<int16_t>(Get<int32_t>(a, i)); });
}
inline __m512 HalvesToFloats(__m256i a) {
  return Lanes<__m512, float>(
      [&](size_t i) { return worker::HalfToFloat(Get<uint16_t>(a, i)); });
}
// To nearest even, whatever the rounding that was asked for.
inline __m256i FloatsToHalves(__m512 a) {
  return Lanes<__m256i, uint16_t>(
      [&](size_t i) { return worker::FloatToHalf(Get<float>(a, i)); });
}
inline __m256 HalfOf(__m512 a, int half) {
  return Lanes<__m256, float>([&](size_t i) {
    return Get<float>(a, i + 8 * static_cast<size_t>(half));
  });
}
inline __m512 LoadMasked(__mmask16 mask, const float* from) {
  return Lanes<__m512, float>(
      [&](size_t i) { return (mask >> i & 1) != 0 ? from[i] : 0.0f; });
}
inline void StoreMasked(float* to, __mmask16 mask, __m512 a) {
  for (size_t i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) to[i] = Get<float>(a, i);
  }
}

}  // namespace baton::emulated

#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps(a, b, c) ::baton::emulated::MultiplyAdd(a, b, c)
#undef _mm512_fnmadd_ps
#define _mm512_fnmadd_ps(a, b, c) \
  ::baton::emulated::NegativeMultiplyAdd(a, b, c)
#define _mm512_cvtepi32_ps(a) ::baton::emulated::IntsToFloats(a)
#define _mm512_cvtps_epi32(a) ::baton::emulated::FloatsToInts(a)
#define _mm512_cvtepi32_epi16(a) ::baton::emulated::IntsToShorts(a)
#define _mm512_cvtph_ps(a) ::baton::emulated::HalvesToFloats(a)
#define _mm512_cvtps_ph(a, rounding) ::baton::emulated::FloatsToHalves(a)
#define _mm512_extractf32x8_ps(a, half) ::baton::emulated::HalfOf(a, half)
#define _mm512_maskz_loadu_ps(mask, from) \
  ::baton::emulated::LoadMasked(mask, from)
#define _mm512_mask_storeu_ps(to, mask, a) \
  ::baton::emulated::StoreMasked(to, mask, a)

#endif  // BATON_TESTS_SUPPORT_EMULATED_AVX512_H_
