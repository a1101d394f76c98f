// Waiting for what another thread or process will do.
#ifndef BATON_TESTS_SUPPORT_AWAIT_H_
#define BATON_TESTS_SUPPORT_AWAIT_H_

#include <poll.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton::testing_support {

// Polls `condition` every 20 ms until it holds (true) or `timeout` has passed.
template <typename Condition>
bool Await(Condition condition, absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  while (!condition()) {
    if (absl::Now() > end) return false;
    poll(nullptr, 0, 20);
  }
  return true;
}

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_AWAIT_H_
