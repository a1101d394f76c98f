// A process that this one starts, watches and ends. It dies with its parent,
// has a process group of its own (a terminal's ctrl-C reaches the parent only,
// which then ends the children in order), reads nothing, writes its standard
// output into a pipe and its standard error into a log file.
#ifndef BATON_SERVICES_CLI_CLUSTER_CHILD_PROCESS_H_
#define BATON_SERVICES_CLI_CLUSTER_CHILD_PROCESS_H_

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/base/unique_fd.h"

namespace baton::cli {

// Thread-compatible. The destructor kills a child that still runs.
class ChildProcess {
 public:
  struct Options {
    std::string binary;
    std::vector<std::string> arguments;  // without argv[0]
    std::string log_path;                // appended to; empty = our own stderr
    bool merge_error = false;  // standard error into the output; no log_path
    // What the kernel sends when the thread that called Start ends.
    int death_signal = SIGKILL;
  };

  // Errors: kNotFound (no such binary or log folder), kResourceExhausted.
  static absl::StatusOr<ChildProcess> Start(const Options& options);
  ChildProcess(ChildProcess&&) = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // Readable once the child has ended.
  int exit_fd() const { return pid_fd_.get(); }
  // Readable when the child has written; -1 after the end of its output.
  int output_fd() const { return output_.get(); }

  // Complete lines that are there now, without their newlines. Never waits.
  std::vector<std::string> TakeLines();
  // False if it has ended already.
  bool Signal(int signal);
  // True once the child has ended; then `ending()` says how. Never waits.
  bool TryReap();
  // "exit code 1", "signal 9"; empty while it runs.
  const std::string& ending() const { return ending_; }

 private:
  ChildProcess(pid_t pid, UniqueFd pid_fd, UniqueFd output)
      : pid_(pid), pid_fd_(std::move(pid_fd)), output_(std::move(output)) {}

  pid_t pid_;
  UniqueFd pid_fd_;
  UniqueFd output_;
  std::string partial_line_;
  std::string ending_;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_CHILD_PROCESS_H_
