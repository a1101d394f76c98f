#include "services/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace baton {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    }
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ExtendBySse42(
    uint32_t crc, std::span<const std::byte> bytes) {
  uint64_t state = ~crc;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, sizeof(word));
    state = _mm_crc32_u64(state, word);
  }
  uint32_t state32 = static_cast<uint32_t>(state);
  for (; left > 0; --left, ++p) {
    state32 = _mm_crc32_u8(state32, static_cast<uint8_t>(*p));
  }
  return ~state32;
}
#endif

}  // namespace

uint32_t ExtendCrc32cByTable(uint32_t crc, std::span<const std::byte> bytes) {
  uint32_t state = ~crc;
  for (std::byte b : bytes) {
    state = kTable[(state ^ static_cast<uint8_t>(b)) & 0xff] ^ (state >> 8);
  }
  return ~state;
}

uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ExtendBySse42(crc, bytes);
#endif
  return ExtendCrc32cByTable(crc, bytes);
}

}  // namespace baton
