// A `baton up` run by another command: started, waited for, ended.
#ifndef BATON_SERVICES_CLI_CLUSTER_LOCAL_CLUSTER_H_
#define BATON_SERVICES_CLI_CLUSTER_LOCAL_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/cli/base/signals.h"
#include "services/cli/cluster/child_process.h"
#include "services/cli/cluster/state_file.h"

namespace baton::cli {

// Thread-compatible; made, used and destroyed on one thread.
class LocalCluster {
 public:
  struct Options {
    std::string binary;              // `baton` itself
    std::vector<std::string> flags;  // of `baton up`
    std::string dir;                 // existing; state and logs go there
    absl::Duration start_timeout = absl::Minutes(10);
  };

  // Returns when the gateway is ready. Errors: kUnavailable (it ended; the
  // message has its last lines), kDeadlineExceeded, kCancelled (a signal).
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(
      const Options& options, Signals* signals);
  // Drains, and waits for the end.
  ~LocalCluster();

  const ClusterState& state() const { return state_; }

 private:
  explicit LocalCluster(ChildProcess up) : up_(std::move(up)) {}

  ChildProcess up_;
  ClusterState state_;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_LOCAL_CLUSTER_H_
