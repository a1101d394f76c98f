// CRC32C (Castagnoli), RFC 3720 appendix B.4. SSE4.2 where the machine has
// it, else a table; both give the same value.
#ifndef BATON_SERVICES_BASE_CRC32C_H_
#define BATON_SERVICES_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace baton {

// Extends `crc` (0 for the first call) over `bytes`.
uint32_t ExtendCrc32c(uint32_t crc, std::span<const std::byte> bytes);

inline uint32_t Crc32c(std::span<const std::byte> bytes) {
  return ExtendCrc32c(0, bytes);
}

// The table form, for tests of the vector form.
uint32_t ExtendCrc32cByTable(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace baton

#endif  // BATON_SERVICES_BASE_CRC32C_H_
