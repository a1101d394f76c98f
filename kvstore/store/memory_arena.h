// Payloads in memory, under one budget that is never exceeded.
//
// Each payload is a mapping of its own, rounded up to pages, so that no mix of
// sizes can fragment the arena, and freed room really returns to the system.
// Nearly all payloads have the same size (a full block), hence a few freed
// mappings are kept for the next payload of that size: a fresh one costs a
// page fault per 4 KiB.
#ifndef BATON_KVSTORE_STORE_MEMORY_ARENA_H_
#define BATON_KVSTORE_STORE_MEMORY_ARENA_H_

#include <cstdint>
#include <memory>

#include "kvstore/store/payload_store.h"

namespace baton::kvstore {

// Thread-safe.
class MemoryArena final : public PayloadStore {
 public:
  struct Options {
    // Upper bound of all mappings together, idle ones included. Give the
    // index's capacity plus room for evicted objects that are still read.
    uint64_t budget_bytes = uint64_t{1} << 30;
    // Freed mappings kept for reuse.
    uint64_t max_idle_bytes = uint64_t{64} << 20;
  };

  explicit MemoryArena(const Options& options);
  ~MemoryArena() override;

  // Errors: kInvalidArgument (0 bytes), kResourceExhausted (budget, or the
  // system has no memory).
  absl::StatusOr<std::shared_ptr<Payload>> Allocate(uint64_t bytes) override;
  uint64_t Footprint(uint64_t bytes) const override;

  // Held by payloads.
  uint64_t live_bytes() const;
  // Held by payloads or kept for reuse; at most the budget.
  uint64_t mapped_bytes() const;

  // Private to the implementation; payloads share it, and so may outlive the
  // arena.
  class State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_STORE_MEMORY_ARENA_H_
