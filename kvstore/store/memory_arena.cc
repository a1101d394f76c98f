#include "kvstore/store/memory_arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/base/mutex.h"

namespace baton::kvstore {
namespace {

constexpr uint64_t kPageBytes = 4096;

// Saturates instead of wrapping: a wrapped size would pass the budget check.
uint64_t RoundUp(uint64_t bytes) {
  if (bytes > std::numeric_limits<uint64_t>::max() - kPageBytes) {
    return std::numeric_limits<uint64_t>::max();
  }
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

class MemoryArena::State {
 public:
  explicit State(const Options& options) : options_(options) {}
  ~State() {
    MutexLock lock(&mutex_);
    while (!idle_.empty()) UnmapOneLocked();
  }

  absl::StatusOr<std::byte*> Take(uint64_t size) {
    MutexLock lock(&mutex_);
    if (auto it = idle_.find(size); it != idle_.end()) {
      std::byte* const start = it->second.back();
      it->second.pop_back();
      if (it->second.empty()) idle_.erase(it);
      idle_bytes_ -= size;
      live_bytes_ += size;
      return start;
    }
    if (size > options_.budget_bytes ||
        live_bytes_ > options_.budget_bytes - size) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no room for ", size, " bytes: ", live_bytes_, " of ",
                       options_.budget_bytes, " are in use"));
    }
    // Terminates: with nothing idle, live + size fits the budget.
    while (live_bytes_ + idle_bytes_ + size > options_.budget_bytes) {
      UnmapOneLocked();
    }
    void* const start = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot map ", size, " bytes: ", strerror(errno)));
    }
    live_bytes_ += size;
    return static_cast<std::byte*>(start);
  }

  void GiveBack(std::byte* start, uint64_t size) {
    {
      MutexLock lock(&mutex_);
      live_bytes_ -= size;
      if (idle_bytes_ + size <= options_.max_idle_bytes) {
        idle_[size].push_back(start);
        idle_bytes_ += size;
        return;
      }
    }
    munmap(start, size);
  }

  uint64_t live_bytes() const {
    MutexLock lock(&mutex_);
    return live_bytes_;
  }
  uint64_t mapped_bytes() const {
    MutexLock lock(&mutex_);
    return live_bytes_ + idle_bytes_;
  }

 private:
  void UnmapOneLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto largest = std::prev(idle_.end());
    munmap(largest->second.back(), largest->first);
    idle_bytes_ -= largest->first;
    largest->second.pop_back();
    if (largest->second.empty()) idle_.erase(largest);
  }

  const Options options_;
  mutable Mutex mutex_;
  // By size; no list is empty.
  std::map<uint64_t, std::vector<std::byte*>> idle_ ABSL_GUARDED_BY(mutex_);
  uint64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

namespace {

class Mapping final : public Payload {
 public:
  Mapping(std::shared_ptr<MemoryArena::State> state, std::byte* start,
          uint64_t bytes)
      : state_(std::move(state)), start_(start), bytes_(bytes) {}
  ~Mapping() override { state_->GiveBack(start_, RoundUp(bytes_)); }

  std::span<std::byte> bytes() override { return {start_, bytes_}; }
  std::span<const std::byte> bytes() const override { return {start_, bytes_}; }

 private:
  const std::shared_ptr<MemoryArena::State> state_;
  std::byte* const start_;
  const uint64_t bytes_;
};

}  // namespace

MemoryArena::MemoryArena(const Options& options)
    : state_(std::make_shared<State>(options)) {}

MemoryArena::~MemoryArena() = default;

absl::StatusOr<std::shared_ptr<Payload>> MemoryArena::Allocate(uint64_t bytes) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("a payload has at least one byte");
  }
  absl::StatusOr<std::byte*> start = state_->Take(RoundUp(bytes));
  if (!start.ok()) return start.status();
  return std::make_shared<Mapping>(state_, *start, bytes);
}

uint64_t MemoryArena::Footprint(uint64_t bytes) const { return RoundUp(bytes); }

uint64_t MemoryArena::live_bytes() const { return state_->live_bytes(); }

uint64_t MemoryArena::mapped_bytes() const { return state_->mapped_bytes(); }

}  // namespace baton::kvstore
