// `baton up`: a whole cluster of real processes on this machine, kept running
// until ctrl-C.
#ifndef BATON_SERVICES_CLI_UP_COMMAND_H_
#define BATON_SERVICES_CLI_UP_COMMAND_H_

#include "absl/status/statusor.h"
#include "services/cli/base/signals.h"
#include "services/cli/cluster/plan.h"

namespace baton::cli {

// Returns the exit code: 0 after a drain that was asked for, 1 if the model
// cannot be read or the cluster could not start, 78 for a wrong configuration.
int RunUp(int argc, const char* const* argv, Signals* signals);

// The folder of the running executable. Errors: kInternal.
absl::StatusOr<std::string> ExecutableFolder();

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_UP_COMMAND_H_
