// The element type of cached K and V rows. Rows of different types are
// different bits: the type is part of the cache layout's fingerprint.
#ifndef BATON_WORKER_KERNELS_ATTENTION_KV_TYPE_H_
#define BATON_WORKER_KERNELS_ATTENTION_KV_TYPE_H_

#include <cstddef>
#include <cstdint>

namespace baton::worker {

enum class KvType {
  kF16,  // IEEE half precision, rounded to nearest even when stored
  kF32,  // as computed; twice the memory and the traffic
};

constexpr size_t KvElementBytes(KvType type) {
  return type == KvType::kF16 ? sizeof(uint16_t) : sizeof(float);
}

// The type's name in layouts, options and metrics.
constexpr const char* KvTypeName(KvType type) {
  return type == KvType::kF16 ? "f16" : "f32";
}

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_KV_TYPE_H_
