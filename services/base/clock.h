// Time as a dependency: production code takes a Clock&, tests move it by hand.
#ifndef BATON_SERVICES_BASE_CLOCK_H_
#define BATON_SERVICES_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace baton {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Wall clock: only for log lines and for what clients read.
  virtual absl::Time Now() const = 0;
  // Monotonic, from an arbitrary origin: leases, deadlines and durations.
  virtual absl::Duration Monotonic() const = 0;
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override;
  absl::Duration Monotonic() const override;
};

}  // namespace baton

#endif  // BATON_SERVICES_BASE_CLOCK_H_
