// Asks a program whether it would accept its configuration, before anything is
// started: flags, environment and file, through its own --check-config.
#ifndef BATON_SERVICES_CLI_CLUSTER_CONFIGURATION_CHECK_H_
#define BATON_SERVICES_CLI_CLUSTER_CONFIGURATION_CHECK_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/cli/cluster/supervisor.h"

namespace baton::cli {

// Runs the process's binary with its arguments and --check-config, and waits
// for it, at most `patience`. Errors: kInvalidArgument with what the program
// says; kNotFound (no such binary), kDeadlineExceeded, kUnavailable (it did not
// end as such a check does).
absl::Status CheckConfiguration(const ProcessSpec& spec,
                                absl::Duration patience = absl::Seconds(30));

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_CONFIGURATION_CHECK_H_
