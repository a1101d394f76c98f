#include "services/cli/cluster/local_cluster.h"

#include <poll.h>

#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/base/clock.h"
#include "services/base/status_macros.h"
#include "services/cli/cluster/supervisor.h"

namespace baton::cli {

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(
    const Options& options, Signals* signals) {
  const std::string state_file = options.dir + "/state.json";
  ChildProcess::Options child;
  child.binary = options.binary;
  child.arguments = {"up", "--http=127.0.0.1:0", "--grpc=127.0.0.1:0",
                     "--state-file=" + state_file, "--log-dir=" + options.dir};
  child.arguments.insert(child.arguments.end(), options.flags.begin(),
                         options.flags.end());
  child.log_path = options.dir + "/up.log";
  child.death_signal = SIGTERM;  // so that it drains its own children
  BATON_ASSIGN_OR_RETURN(ChildProcess up, ChildProcess::Start(child));
  std::unique_ptr<LocalCluster> cluster(new LocalCluster(std::move(up)));

  const SystemClock clock;
  const absl::Duration deadline = clock.Monotonic() + options.start_timeout;
  while (true) {
    for (const std::string& line : cluster->up_.TakeLines()) {
      if (!absl::StartsWith(line, "ready:")) continue;
      BATON_ASSIGN_OR_RETURN(cluster->state_, ReadStateFile(state_file));
      return cluster;
    }
    if (cluster->up_.TryReap()) {
      return absl::UnavailableError(
          absl::StrCat("baton up ended with ", cluster->up_.ending(), "\n",
                       LastLines(child.log_path, 10)));
    }
    const absl::Duration left = deadline - clock.Monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("the cluster was not ready after ",
                       absl::FormatDuration(options.start_timeout)));
    }
    std::array<pollfd, 3> fds = {{{signals->fd(), POLLIN, 0},
                                  {cluster->up_.output_fd(), POLLIN, 0},
                                  {cluster->up_.exit_fd(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), PollTimeout(left));
    if (fds[0].revents != 0 && signals->Take() != 0) {
      return absl::CancelledError("interrupted");
    }
  }
}

LocalCluster::~LocalCluster() {
  up_.Signal(SIGTERM);
  while (!up_.TryReap()) {
    pollfd exit = {up_.exit_fd(), POLLIN, 0};
    poll(&exit, 1, -1);
  }
}

}  // namespace baton::cli
