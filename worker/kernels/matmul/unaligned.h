// Numbers read from anywhere. Everything is local to its source, so that
// sources of different instruction sets may include it (avx512_lanes.h).
#ifndef BATON_WORKER_KERNELS_MATMUL_UNALIGNED_H_
#define BATON_WORKER_KERNELS_MATMUL_UNALIGNED_H_

#include <stdint.h>

namespace baton::worker {
namespace {

inline __attribute__((always_inline)) int32_t LoadInt(const void* at) {
  int32_t value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}
inline __attribute__((always_inline)) float LoadFloat(const void* at) {
  float value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace
}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_UNALIGNED_H_
