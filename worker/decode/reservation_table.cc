#include "worker/decode/reservation_table.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/base/mutex.h"

namespace baton::worker {
namespace {

constexpr absl::Duration kMaxReapInterval = absl::Seconds(1);

struct Reservation {
  uint32_t blocks = 0;
  bool started = false;
  absl::Duration expires;  // monotonic; until started
  std::function<void()> on_expired;
};

absl::Status Full(const std::string& why) {
  return WithRetryAfter(absl::ResourceExhaustedError(why), absl::Seconds(1));
}

}  // namespace

struct ReservationTable::State {
  Options options;
  const Clock* clock = nullptr;
  Executor* timers = nullptr;
  Mutex mutex;
  uint64_t last_id ABSL_GUARDED_BY(mutex) = 0;
  std::map<ReservationId, Reservation> live ABSL_GUARDED_BY(mutex);
};

ReservationTable::ReservationTable(const Options& options, const Clock* clock,
                                   Executor* timers)
    : options_(options), state_(std::make_shared<State>()) {
  state_->options = options;
  state_->clock = clock;
  state_->timers = timers;
  ScheduleReaper(state_);
}

ReservationTable::~ReservationTable() = default;

absl::StatusOr<ReservationId> ReservationTable::TryReserve(
    uint32_t blocks, const BlockPoolStats& pool,
    std::function<void()> on_expired) {
  MutexLock lock(&state_->mutex);
  if (state_->live.size() >= options_.max_sequences) {
    return Full(absl::StrCat("all ", options_.max_sequences,
                             " sequences of this worker are taken"));
  }
  uint64_t promised = 0;
  for (const auto& [id, reservation] : state_->live) {
    if (!reservation.started) promised += reservation.blocks;
  }
  if (promised + blocks > pool.free + pool.cached) {
    return Full(absl::StrCat("no room for ", blocks, " KV blocks now"));
  }
  const ReservationId id(++state_->last_id);
  Reservation& reservation = state_->live[id];
  reservation.blocks = blocks;
  reservation.expires = state_->clock->Monotonic() + options_.ttl;
  reservation.on_expired = std::move(on_expired);
  return id;
}

bool ReservationTable::Start(ReservationId id) {
  MutexLock lock(&state_->mutex);
  auto it = state_->live.find(id);
  if (it == state_->live.end()) return false;
  it->second.started = true;
  return true;
}

void ReservationTable::End(ReservationId id) {
  std::function<void()> unused;  // destroyed outside the lock
  MutexLock lock(&state_->mutex);
  auto it = state_->live.find(id);
  if (it == state_->live.end()) return;
  unused = std::move(it->second.on_expired);
  state_->live.erase(it);
}

void ReservationTable::Reap() { ReapNow(state_.get()); }

void ReservationTable::ReapNow(State* state) {
  std::vector<std::function<void()>> expired;
  {
    MutexLock lock(&state->mutex);
    const absl::Duration now = state->clock->Monotonic();
    for (auto it = state->live.begin(); it != state->live.end();) {
      if (it->second.started || it->second.expires > now) {
        ++it;
        continue;
      }
      expired.push_back(std::move(it->second.on_expired));
      it = state->live.erase(it);
    }
  }
  for (const std::function<void()>& on_expired : expired) on_expired();
}

void ReservationTable::ScheduleReaper(const std::shared_ptr<State>& state) {
  const absl::Duration interval =
      std::min(kMaxReapInterval, state->options.ttl / 4);
  // Weak: the timer does not keep a table that is gone.
  state->timers->PostAfter(interval, [weak = std::weak_ptr<State>(state)] {
    auto alive = weak.lock();
    if (alive == nullptr) return;
    ReapNow(alive.get());
    ScheduleReaper(alive);
  });
}

uint32_t ReservationTable::size() const {
  MutexLock lock(&state_->mutex);
  return static_cast<uint32_t>(state_->live.size());
}

}  // namespace baton::worker
