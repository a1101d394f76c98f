// Where the bytes of objects live. The index decides what is kept and for how
// long; a store only hands out room. The memory arena is one; further tiers
// stand behind the same interface.
#ifndef BATON_KVSTORE_STORE_PAYLOAD_STORE_H_
#define BATON_KVSTORE_STORE_PAYLOAD_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace baton::kvstore {

// The bytes of one object; its room is given back with the last reference.
// Written by one writer before it is shared with readers, never after: the
// index hands it to readers as const.
class Payload {
 public:
  virtual ~Payload() = default;
  // Exactly as many as were allocated. Contents are unspecified at first.
  virtual std::span<std::byte> bytes() = 0;
  virtual std::span<const std::byte> bytes() const = 0;
};

// Thread-safe.
class PayloadStore {
 public:
  virtual ~PayloadStore() = default;
  // Shared, since a reader may outlive the object's place in the index. The
  // payload may outlive the store, too.
  // Errors: kResourceExhausted.
  virtual absl::StatusOr<std::shared_ptr<Payload>> Allocate(uint64_t bytes) = 0;
  // What a payload of `bytes` takes of the budget, rounding included.
  virtual uint64_t Footprint(uint64_t bytes) const = 0;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_STORE_PAYLOAD_STORE_H_
