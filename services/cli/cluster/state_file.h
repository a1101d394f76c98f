// The file in which `baton up` says what runs where; tests and scripts read
// it. It is replaced in one step, so a reader never sees half of one, and it is
// there only while the cluster is.
#ifndef BATON_SERVICES_CLI_CLUSTER_STATE_FILE_H_
#define BATON_SERVICES_CLI_CLUSTER_STATE_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::cli {

// One process of the cluster, as its supervisor sees it now.
struct ProcessView {
  std::string name;  // "decode-0"
  std::string role;  // "gateway", "prefill", "decode" or "kvstore"
  pid_t pid = 0;     // 0 = not running now
  std::string grpc;  // "host:port"; stays the same over restarts
  std::string http;
  uint32_t restarts = 0;
};

struct ClusterState {
  pid_t supervisor_pid = 0;
  bool ready = false;  // the gateway was ready once, and nothing drains yet
  std::string log_dir;
  std::vector<ProcessView> processes;

  // The first process of the role; nullptr if there is none.
  const ProcessView* Find(const std::string& role) const;
};

// {"pid", "ready", "log_dir", "gateway": {…}, "kvstore": {…}, "workers":
// [{"name", "role", "pid", "grpc", "http", "restarts"}, …]}.
std::string StateJson(const ClusterState& state);

// Errors: kUnavailable (cannot write).
absl::Status WriteStateFile(const std::string& path, const ClusterState& state);
// Does nothing to a file that another supervisor has written since, or to what
// is no state file.
void RemoveStateFile(const std::string& path, pid_t supervisor_pid);
// Errors: kNotFound, kDataLoss (not such a file).
absl::StatusOr<ClusterState> ReadStateFile(const std::string& path);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_STATE_FILE_H_
