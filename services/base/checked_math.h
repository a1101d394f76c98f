// Arithmetic on numbers that came from outside: overflow is a result, not
// undefined behaviour.
#ifndef BATON_SERVICES_BASE_CHECKED_MATH_H_
#define BATON_SERVICES_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace baton {

inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

constexpr uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace baton

#endif  // BATON_SERVICES_BASE_CHECKED_MATH_H_
