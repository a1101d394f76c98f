#include "services/cli/cluster/configuration_check.h"

#include <poll.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/base/clock.h"
#include "services/base/status_macros.h"
#include "services/cli/cluster/child_process.h"
#include "services/config/option_table.h"

namespace baton::cli {

absl::Status CheckConfiguration(const ProcessSpec& spec,
                                absl::Duration patience) {
  ChildProcess::Options options;
  options.binary = spec.binary;
  options.arguments = spec.arguments;
  for (const std::string& argument :
       {"--grpc=" + spec.grpc, "--http=" + spec.http,
        std::string("--check-config")}) {
    options.arguments.push_back(argument);
  }
  options.merge_error = true;
  BATON_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(options));

  const SystemClock clock;
  const absl::Duration deadline = clock.Monotonic() + patience;
  std::vector<std::string> lines;
  const auto take = [&] {
    for (std::string& line : child.TakeLines()) lines.push_back(line);
  };
  while (!child.TryReap()) {
    const absl::Duration left = deadline - clock.Monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(spec.name, " does not answer --check-config"));
    }
    pollfd fds[2] = {{child.exit_fd(), POLLIN, 0},
                     {child.output_fd(), POLLIN, 0}};
    poll(fds, 2, PollTimeout(left));
    take();
  }
  take();
  if (child.ending() == "exit code 0") return absl::OkStatus();
  if (child.ending() != absl::StrCat("exit code ", config::kExitConfig)) {
    return absl::UnavailableError(
        absl::StrCat(spec.name, " --check-config ended with ", child.ending()));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "\n"));
}

}  // namespace baton::cli
