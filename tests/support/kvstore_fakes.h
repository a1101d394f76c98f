// Pieces that the KV store's tests share.
#ifndef BATON_TESTS_SUPPORT_KVSTORE_FAKES_H_
#define BATON_TESTS_SUPPORT_KVSTORE_FAKES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kvstore/block/block_key.h"
#include "kvstore/store/payload_store.h"
#include "services/base/mutex.h"

namespace baton::kvstore {

// A key that only depends on `number`.
inline BlockKey TestKey(uint32_t number) {
  BlockKey key;
  for (int i = 0; i < 4; ++i) {
    key.bytes[i] = static_cast<uint8_t>(number >> (8 * i));
  }
  return key;
}

// Bytes that only depend on size and seed; no two 8-byte words are equal.
inline std::vector<std::byte> TestPayload(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = random();
    for (size_t j = i; j < size && j < i + 8; ++j) {
      bytes[j] = static_cast<std::byte>(word >> (8 * (j - i)));
    }
  }
  return bytes;
}

// A store whose memory can be damaged behind its back. Thread-safe.
class FlippingPayloadStore final : public PayloadStore {
 public:
  // `store` must outlive this.
  explicit FlippingPayloadStore(PayloadStore* store) : store_(store) {}

  absl::StatusOr<std::shared_ptr<Payload>> Allocate(uint64_t bytes) override {
    auto payload = store_->Allocate(bytes);
    if (payload.ok()) {
      MutexLock lock(&mutex_);
      payloads_.push_back(*payload);
    }
    return payload;
  }
  uint64_t Footprint(uint64_t bytes) const override {
    return store_->Footprint(bytes);
  }

  // Flips the lowest bit of one byte of the payload allocated `index`-th.
  // False if it has been freed.
  bool FlipBit(size_t index, size_t offset) {
    MutexLock lock(&mutex_);
    const std::shared_ptr<Payload> payload = payloads_.at(index).lock();
    if (payload == nullptr) return false;
    payload->bytes()[offset] ^= std::byte{1};
    return true;
  }

 private:
  PayloadStore* const store_;
  Mutex mutex_;
  std::vector<std::weak_ptr<Payload>> payloads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::kvstore

#endif  // BATON_TESTS_SUPPORT_KVSTORE_FAKES_H_
