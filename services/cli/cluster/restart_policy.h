// When a child that died is started again: at once is never, since a fault at
// start would then spin. Pure; thread-compatible.
#ifndef BATON_SERVICES_CLI_CLUSTER_RESTART_POLICY_H_
#define BATON_SERVICES_CLI_CLUSTER_RESTART_POLICY_H_

#include "absl/time/time.h"

namespace baton::cli {

class RestartPolicy {
 public:
  struct Options {
    absl::Duration first_delay = absl::Milliseconds(100);
    absl::Duration max_delay = absl::Seconds(5);
    // A child that lived this long has recovered: its next delay is the first.
    absl::Duration stable_after = absl::Seconds(10);
  };

  explicit RestartPolicy(const Options& options)
      : options_(options), next_delay_(options.first_delay) {}

  // How long to wait after a child that lived for `lifetime` has died.
  absl::Duration OnExit(absl::Duration lifetime);

 private:
  const Options options_;
  absl::Duration next_delay_;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_RESTART_POLICY_H_
