// A real local cluster for end-to-end tests: starts `baton up` with port 0,
// reads its state file, talks gRPC to the gateway, and stops everything at the
// end. Tests may kill or stop single processes by the pid in the state.
#ifndef BATON_TESTS_SUPPORT_CLUSTER_PROCESS_H_
#define BATON_TESTS_SUPPORT_CLUSTER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/completion.grpc.pb.h"
#include "tests/support/await.h"

namespace baton::testing_support {

class ClusterProcess {
 public:
  struct Options {
    std::string model;
    int prefill = 1;
    int decode = 1;
    bool kvstore = true;
    std::vector<std::string> more;  // further flags of `baton up`
  };

  // Waits until the gateway is ready and knows all workers.
  static absl::StatusOr<std::unique_ptr<ClusterProcess>> Start(
      const Options& options, absl::Duration timeout = absl::Seconds(60));
  // SIGTERM, then SIGKILL after 20 s.
  ~ClusterProcess();

  // The state file, read now.
  nlohmann::json State() const;
  // pid of "gateway", "kvstore", or of the first worker with that role
  // ("prefill", "decode"); -1 if there is none.
  pid_t Pid(const std::string& role) const;
  std::string GrpcAddress(const std::string& role) const;
  std::string HttpAddress(const std::string& role) const;
  // Waits until `role` runs under another pid than `old_pid`.
  bool AwaitRestart(const std::string& role, pid_t old_pid,
                    absl::Duration timeout) const;
  // Waits until the gateway's /readyz is 200.
  bool AwaitReady(absl::Duration timeout) const;
  // One value of a process's /metrics: the sum over series whose name and
  // labels start with `series`; -1 if there is none.
  double Metric(const std::string& role, const std::string& series) const;

  v1::CompletionService::Stub* completions() { return stub_.get(); }

 private:
  ClusterProcess() = default;
  pid_t pid_ = -1;
  std::string directory_;
  std::unique_ptr<v1::CompletionService::Stub> stub_;
};

// GET over plain HTTP/1.1; returns "STATUS\nBODY" or an error.
absl::StatusOr<std::string> HttpGet(const std::string& address,
                                    const std::string& path);

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_CLUSTER_PROCESS_H_
