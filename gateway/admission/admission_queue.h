// Who may run now, who waits, who is refused: a bounded first-come queue.
// A single-threaded object with no clock of its own; admission_gate.h is its
// thread-safe shell. How long a request may wait is the flow's rule.
#ifndef BATON_GATEWAY_ADMISSION_ADMISSION_QUEUE_H_
#define BATON_GATEWAY_ADMISSION_ADMISSION_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "absl/time/time.h"

namespace baton::gateway {

class AdmissionQueue {
 public:
  struct Options {
    uint32_t max_inflight = 64;
    uint32_t max_queued = 256;
  };
  using Ticket = uint64_t;  // never 0
  enum class Verdict { kAdmitted, kQueued, kRefused };

  explicit AdmissionQueue(const Options& options) : options_(options) {}

  // `ticket` must be new.
  Verdict Enter(Ticket ticket, absl::Duration now);
  // The holder has ended or given up waiting. Returns the ticket that is
  // admitted in its place. Unknown tickets change nothing.
  std::optional<Ticket> Leave(Ticket ticket, absl::Duration now);

  // When a refused request should try again: the time in which the requests
  // ahead of it pass, from the mean time that requests were held; 1 s to 60 s.
  absl::Duration RetryHint() const;

  uint32_t inflight() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t queued() const { return static_cast<uint32_t>(waiting_.size()); }

 private:
  const Options options_;
  std::map<Ticket, absl::Duration> running_;  // with the time of admission
  std::deque<Ticket> waiting_;
  absl::Duration mean_held_ = absl::Seconds(1);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ADMISSION_ADMISSION_QUEUE_H_
