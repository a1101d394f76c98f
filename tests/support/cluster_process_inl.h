// Template of cluster_process.h.
#ifndef BATON_TESTS_SUPPORT_CLUSTER_PROCESS_INL_H_
#define BATON_TESTS_SUPPORT_CLUSTER_PROCESS_INL_H_

#include <poll.h>

#include "absl/time/clock.h"

namespace baton::testing_support {

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

#endif  // BATON_TESTS_SUPPORT_CLUSTER_PROCESS_INL_H_
