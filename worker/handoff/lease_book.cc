#include "worker/handoff/lease_book.h"

#include <utility>

#include "absl/status/status.h"

namespace baton::worker {

struct HeldLease::State {
  kvstore::Lease lease;
  absl::Duration ttl;
  kvstore::KvStoreClient* store = nullptr;
  Executor* executor = nullptr;
  std::shared_ptr<std::atomic<uint32_t>> held;

  mutable Mutex mutex;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  bool lost ABSL_GUARDED_BY(mutex) = false;

  // True for the one caller that ends the lease.
  bool End() {
    MutexLock lock(&mutex);
    return !std::exchange(ended, true);
  }

  static void ScheduleHeartbeat(const std::shared_ptr<State>& state) {
    // Weak: a heartbeat that waits does not keep an ended lease's state.
    state->executor->PostAfter(state->ttl / 3,
                               [weak = std::weak_ptr<State>(state)] {
                                 if (auto alive = weak.lock()) Heartbeat(alive);
                               });
  }

  static void Heartbeat(const std::shared_ptr<State>& state) {
    {
      MutexLock lock(&state->mutex);
      if (state->ended) return;
    }
    const absl::Status status = state->store->Renew(state->lease, state->ttl);
    if (absl::IsAborted(status) || absl::IsNotFound(status)) {
      MutexLock lock(&state->mutex);
      state->lost = true;
      return;
    }
    ScheduleHeartbeat(state);
  }
};

HeldLease::HeldLease(std::shared_ptr<State> state) : state_(std::move(state)) {}

HeldLease::~HeldLease() { Release(); }

const kvstore::Lease& HeldLease::lease() const { return state_->lease; }

bool HeldLease::lost() const {
  MutexLock lock(&state_->mutex);
  return state_->lost;
}

void HeldLease::Release() {
  if (!state_->End()) return;
  const bool posted = state_->executor->Post([state = state_] {
    // A failure is no loss: the lease expires by itself.
    state->store->Release(state->lease).IgnoreError();
    state->held->fetch_sub(1);
  });
  if (!posted) state_->held->fetch_sub(1);
}

void HeldLease::HandOver() {
  if (state_->End()) state_->held->fetch_sub(1);
}

LeaseBook::LeaseBook(const Options& options, kvstore::KvStoreClient* store,
                     Executor* executor)
    : options_(options),
      store_(store),
      executor_(executor),
      held_(std::make_shared<std::atomic<uint32_t>>(0)) {}

std::unique_ptr<HeldLease> LeaseBook::Hold(const kvstore::Lease& lease) {
  auto state = std::make_shared<HeldLease::State>();
  state->lease = lease;
  state->ttl = options_.ttl;
  state->store = store_;
  state->executor = executor_;
  state->held = held_;
  held_->fetch_add(1);
  HeldLease::State::ScheduleHeartbeat(state);
  return std::unique_ptr<HeldLease>(new HeldLease(std::move(state)));
}

uint32_t LeaseBook::held() const { return held_->load(); }

}  // namespace baton::worker
