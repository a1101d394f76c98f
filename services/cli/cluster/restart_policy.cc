#include "services/cli/cluster/restart_policy.h"

#include <algorithm>

namespace baton::cli {

absl::Duration RestartPolicy::OnExit(absl::Duration lifetime) {
  if (lifetime >= options_.stable_after) next_delay_ = options_.first_delay;
  const absl::Duration delay = next_delay_;
  next_delay_ = std::min(next_delay_ * 2, options_.max_delay);
  return delay;
}

}  // namespace baton::cli
