#include "services/cli/cluster/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

absl::Status SystemError(absl::string_view what) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": ", std::strerror(errno)));
}

// What the child needs between fork and exec, made before the fork: in a
// process with threads the child may only make async-signal-safe calls.
struct ExecPlan {
  const char* binary;
  char* const* argv;
  int null_fd;
  int output_fd;
  int error_fd;  // -1 = keep
  int death_signal;
  pid_t parent;
};

[[noreturn]] void Exec(const ExecPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, plan.death_signal);
  // The parent may have died before prctl.
  if (getppid() != plan.parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(plan.null_fd, STDIN_FILENO) < 0 ||
      dup2(plan.output_fd, STDOUT_FILENO) < 0 ||
      (plan.error_fd >= 0 && dup2(plan.error_fd, STDERR_FILENO) < 0)) {
    _exit(127);
  }
  execv(plan.binary, plan.argv);
  _exit(127);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const Options& options) {
  if (access(options.binary.c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat(options.binary, ": ", std::strerror(errno)));
  }
  UniqueFd null_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  UniqueFd log_fd;
  if (!options.log_path.empty()) {
    log_fd = UniqueFd(open(options.log_path.c_str(),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
    if (!log_fd.valid()) {
      return absl::NotFoundError(
          absl::StrCat(options.log_path, ": ", std::strerror(errno)));
    }
  }
  std::array<int, 2> pipe_fds;
  if (pipe2(pipe_fds.data(), O_CLOEXEC) != 0) return SystemError("pipe");
  UniqueFd read_end(pipe_fds[0]), write_end(pipe_fds[1]);
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);

  std::vector<char*> argv = {const_cast<char*>(options.binary.c_str())};
  for (const std::string& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const ExecPlan plan = {options.binary.c_str(),
                         argv.data(),
                         null_fd.get(),
                         write_end.get(),
                         options.merge_error ? write_end.get() : log_fd.get(),
                         options.death_signal,
                         getpid()};
  const pid_t pid = fork();
  if (pid < 0) return SystemError("fork");
  if (pid == 0) Exec(plan);
  // Not reaped yet, so the number still means this child.
  UniqueFd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pid_fd.valid()) {
    absl::Status error = SystemError("pidfd_open");
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return error;
  }
  fcntl(pid_fd.get(), F_SETFD, FD_CLOEXEC);
  return ChildProcess(pid, std::move(pid_fd), std::move(read_end));
}

ChildProcess::~ChildProcess() {
  // A moved-from child has no descriptor.
  if (!pid_fd_.valid() || !ending_.empty()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::vector<std::string> ChildProcess::TakeLines() {
  std::vector<std::string> lines;
  std::array<char, 4096> buffer;
  while (output_.valid()) {
    const ssize_t n = read(output_.get(), buffer.data(), buffer.size());
    if (n < 0) break;  // nothing there now
    if (n == 0) {
      output_.Reset();
      break;
    }
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] != '\n') {
        // A line is an address or two; what runs on is not one of ours.
        if (partial_line_.size() < buffer.size()) {
          partial_line_.push_back(buffer[i]);
        }
        continue;
      }
      lines.push_back(std::exchange(partial_line_, {}));
    }
  }
  return lines;
}

bool ChildProcess::Signal(int signal) {
  return ending_.empty() && kill(pid_, signal) == 0;
}

bool ChildProcess::TryReap() {
  if (!ending_.empty()) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  ending_ = WIFSIGNALED(status)
                ? absl::StrCat("signal ", WTERMSIG(status))
                : absl::StrCat("exit code ", WEXITSTATUS(status));
  return true;
}

}  // namespace baton::cli
