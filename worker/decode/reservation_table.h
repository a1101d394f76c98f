// Who may decode on this worker: a request reserves a slot and room for its
// prompt before a prefill worker computes anything, so that no bytes move
// without a home. A reservation counts until its stream ends. One that is never
// started expires, by a timer that does not depend on new requests.
#ifndef BATON_WORKER_DECODE_RESERVATION_TABLE_H_
#define BATON_WORKER_DECODE_RESERVATION_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "worker/cache/block_pool.h"

namespace baton::worker {

using ReservationId = NumberId<struct ReservationIdTag>;

// Thread-safe.
class ReservationTable {
 public:
  struct Options {
    uint32_t max_sequences = 16;
    // From reserve to start. Long: a long prompt is computed meanwhile, and a
    // caller that is gone is noticed by its stream.
    absl::Duration ttl = absl::Minutes(10);
  };

  // `clock` must outlive this, `timers` every task that it was given.
  ReservationTable(const Options& options, const Clock* clock,
                   Executor* timers);
  ~ReservationTable();

  // A slot and `blocks` blocks, of a pool in state `pool`. Room is kept for
  // reservations that have not started; running ones hold their blocks.
  // `on_expired` is called at most once, on a timer thread, without locks.
  // Errors: kResourceExhausted with a retry hint.
  absl::StatusOr<ReservationId> TryReserve(uint32_t blocks,
                                           const BlockPoolStats& pool,
                                           std::function<void()> on_expired);

  // The import begins. False: expired, or not known.
  bool Start(ReservationId id);
  // Frees it. Idempotent.
  void End(ReservationId id);
  // Expires what is overdue. The timer calls this.
  void Reap();

  uint32_t size() const;  // reserved or started
  uint32_t max_sequences() const { return options_.max_sequences; }

 private:
  struct State;
  static void ReapNow(State* state);
  static void ScheduleReaper(const std::shared_ptr<State>& state);

  const Options options_;
  // Shared with the timer's task.
  const std::shared_ptr<State> state_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_DECODE_RESERVATION_TABLE_H_
