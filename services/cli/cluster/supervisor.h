// Keeps the processes of a local cluster running: starts them, learns their
// addresses from their first line, starts a dead one again at the same
// addresses, and ends them in order.
//
//   starting → up → waiting → starting …     (died, back-off, again)
//   starting → failed                        (died before it ever listened)
//
// One thread: every call from the thread that made it, which must outlive the
// children (they die with that thread).
#ifndef BATON_SERVICES_CLI_CLUSTER_SUPERVISOR_H_
#define BATON_SERVICES_CLI_CLUSTER_SUPERVISOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/cli/base/signals.h"
#include "services/cli/cluster/restart_policy.h"
#include "services/cli/cluster/state_file.h"

namespace baton::cli {

struct ProcessSpec {
  std::string name;
  std::string role;
  std::string binary;
  std::vector<std::string> arguments;  // without the addresses to listen on
  std::string grpc = "127.0.0.1:0";    // to listen on
  std::string http = "127.0.0.1:0";
  int drain_rank = 0;  // the lowest rank is ended first
};

class Supervisor {
 public:
  struct Options {
    std::string log_dir;     // <name>.log for each process
    std::string state_file;  // empty = none
    // From start to the listening line, first start only.
    absl::Duration start_timeout = absl::Seconds(60);
    // From SIGTERM to SIGKILL, for each rank.
    absl::Duration drain_timeout = absl::Seconds(30);
    RestartPolicy::Options restart;
    // One line for people about what happened.
    std::function<void(const std::string&)> report;
  };

  // `signals` and `clock` must outlive it.
  Supervisor(const Options& options, Signals* signals, const Clock* clock);
  // Kills what still runs, and removes the state file.
  ~Supervisor();

  // Starts all of them and returns when each listens. Errors: kUnavailable (one
  // ended first; the message has the end of its log), kDeadlineExceeded,
  // kCancelled (a signal came). Nothing is ended then: call Drain.
  absl::Status StartGroup(const std::vector<ProcessSpec>& specs);
  // What the process gets at its next start; an unknown name changes nothing.
  void SetArguments(const std::string& name,
                    const std::vector<std::string>& arguments);
  // Watches for `wait`; false as soon as a signal asks to end.
  bool Watch(absl::Duration wait);
  // Ends everything, rank by rank; a further signal ends the patience. The
  // state file says meanwhile that nothing is ready, and is gone afterwards.
  void Drain();
  // Whether a process has ended that should not have, or has not ended well:
  // then its log is worth reading.
  bool had_faults() const { return had_faults_; }

  void SetReady();
  ClusterState State() const;

 private:
  struct Process;
  void Launch(Process* process);
  void OnOutput(Process* process);
  void OnExit(Process* process);
  bool AllListening() const;
  // Handles what comes within `wait`; true if a signal came.
  bool Poll(absl::Duration wait);
  absl::Duration UntilNextLaunch() const;
  void EndRank(int rank);
  void Publish();
  void RemoveState();

  const Options options_;
  Signals* const signals_;
  const Clock* const clock_;
  std::vector<std::unique_ptr<Process>> processes_;
  bool draining_ = false;
  bool ready_ = false;
  bool had_faults_ = false;
};

// The last `lines` lines of a file; empty if it cannot be read.
std::string LastLines(const std::string& path, size_t lines);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_SUPERVISOR_H_
