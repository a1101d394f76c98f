// Time that moves only when a test moves it.
#ifndef BATON_TESTS_SUPPORT_MANUAL_CLOCK_H_
#define BATON_TESTS_SUPPORT_MANUAL_CLOCK_H_

#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"

namespace baton {

// Thread-safe. Starts at one hour after both origins.
class ManualClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + Monotonic(); }
  absl::Duration Monotonic() const override {
    MutexLock lock(&mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    MutexLock lock(&mutex_);
    now_ += by;
  }

 private:
  mutable Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::Hours(1);
};

}  // namespace baton

#endif  // BATON_TESTS_SUPPORT_MANUAL_CLOCK_H_
