// Which of the machine's cores a process uses, and how much it yields them.
#ifndef BATON_SERVICES_PROCESS_CORES_H_
#define BATON_SERVICES_PROCESS_CORES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::process {

// The cores that this process can keep busy: those it may run on (taskset, a
// container's cpuset, RunOn), but no more than the CPU quota of its control
// groups (a limit of docker or Kubernetes), rounded up. At least 1. `root`
// stands before /proc and /sys.
uint32_t UsableCores(const std::string& root = "");

// "0-3,8" is 0, 1, 2, 3, 8. Errors: kInvalidArgument.
absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text);

// Keeps the calling thread, and all that it starts afterwards, to `cpus`.
// Errors: kInvalidArgument (one that this process may not use),
// kPermissionDenied.
absl::Status RunOn(const std::vector<int>& cpus);

// Lowers the scheduling priority of the calling thread and of all that it
// starts afterwards; a warning if that cannot be. nice: 0..19, 0 = nothing.
void YieldCores(uint32_t nice);

}  // namespace baton::process

#endif  // BATON_SERVICES_PROCESS_CORES_H_
