#include "services/cli/cluster/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/cli/cluster/child_process.h"
#include "services/cli/cluster/listening_line.h"

namespace baton::cli {
namespace {

constexpr char kGoodEnding[] = "exit code 0";

// The second is that of a process which had not come as far as to handle
// SIGTERM.
bool EndedWellInDrain(const std::string& ending) {
  return ending == kGoodEnding || ending == absl::StrCat("signal ", SIGTERM);
}

}  // namespace

struct Supervisor::Process {
  explicit Process(const ProcessSpec& spec, const Supervisor::Options& options)
      : spec(spec),
        log_path(absl::StrCat(options.log_dir, "/", spec.name, ".log")),
        restart(options.restart) {}

  ProcessSpec spec;  // with the real addresses once it has listened
  const std::string log_path;
  RestartPolicy restart;
  std::optional<ChildProcess> child;
  absl::Duration started_at;
  std::optional<absl::Duration> launch_at;  // while it waits
  bool listening = false;
  bool ever_listened = false;
  uint32_t restarts = 0;
  std::string failure;  // why it ended before it ever listened
};

std::string LastLines(const std::string& path, size_t lines) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> all =
      absl::StrSplit(text.str(), '\n', absl::SkipEmpty());
  if (all.size() > lines) all.erase(all.begin(), all.end() - lines);
  return absl::StrJoin(all, "\n");
}

Supervisor::Supervisor(const Options& options, Signals* signals,
                       const Clock* clock)
    : options_(options), signals_(signals), clock_(clock) {}

Supervisor::~Supervisor() {
  processes_.clear();
  RemoveState();
}

absl::Status Supervisor::StartGroup(const std::vector<ProcessSpec>& specs) {
  const size_t first = processes_.size();
  for (const ProcessSpec& spec : specs) {
    processes_.push_back(std::make_unique<Process>(spec, options_));
    Launch(processes_.back().get());
  }
  const absl::Duration deadline = clock_->Monotonic() + options_.start_timeout;
  while (!AllListening()) {
    for (size_t i = first; i < processes_.size(); ++i) {
      const Process& process = *processes_[i];
      if (process.failure.empty()) continue;
      return absl::UnavailableError(
          absl::StrCat(process.spec.name, " did not start: ", process.failure,
                       "\n", LastLines(process.log_path, 10)));
    }
    const absl::Duration left = deadline - clock_->Monotonic();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "not listening after ", absl::FormatDuration(options_.start_timeout),
          "; logs are in ", options_.log_dir));
    }
    if (Poll(left)) return absl::CancelledError("interrupted");
  }
  return absl::OkStatus();
}

void Supervisor::SetArguments(const std::string& name,
                              const std::vector<std::string>& arguments) {
  for (const auto& process : processes_) {
    if (process->spec.name == name) process->spec.arguments = arguments;
  }
}

bool Supervisor::Watch(absl::Duration wait) {
  const absl::Duration deadline = clock_->Monotonic() + wait;
  absl::Duration left = wait;
  while (left > absl::ZeroDuration()) {
    if (Poll(left)) return false;
    left = deadline - clock_->Monotonic();
  }
  return true;
}

void Supervisor::Launch(Process* process) {
  process->launch_at.reset();
  process->started_at = clock_->Monotonic();
  ChildProcess::Options options;
  options.binary = process->spec.binary;
  options.arguments = process->spec.arguments;
  options.arguments.push_back(absl::StrCat("--grpc=", process->spec.grpc));
  options.arguments.push_back(absl::StrCat("--http=", process->spec.http));
  options.log_path = process->log_path;
  auto child = ChildProcess::Start(options);
  if (child.ok()) {
    process->child.emplace(*std::move(child));
  } else {
    had_faults_ = true;
    process->failure = std::string(child.status().message());
    if (process->ever_listened) {
      process->launch_at =
          process->started_at + process->restart.OnExit(absl::ZeroDuration());
    }
  }
  Publish();
}

void Supervisor::OnOutput(Process* process) {
  for (const std::string& line : process->child->TakeLines()) {
    const auto listening = ParseListeningLine(line);
    if (!listening.has_value() || process->listening) continue;
    process->spec.grpc = listening->grpc;
    process->spec.http = listening->http;
    process->listening = true;
    if (process->ever_listened) {
      options_.report(absl::StrCat(process->spec.name, " is back, pid ",
                                   process->child->pid()));
    }
    process->ever_listened = true;
    Publish();
  }
}

void Supervisor::OnExit(Process* process) {
  if (!process->child->TryReap()) return;
  const std::string ending = process->child->ending();
  if (!draining_ || !EndedWellInDrain(ending)) had_faults_ = true;
  const absl::Duration lifetime = clock_->Monotonic() - process->started_at;
  process->child.reset();
  process->listening = false;
  if (draining_) {
    options_.report(absl::StrCat(
        process->spec.name, " has ended",
        EndedWellInDrain(ending) ? "" : absl::StrCat(" with ", ending)));
  } else if (!process->ever_listened) {
    // A wrong configuration does not heal: the caller gets the reason.
    process->failure = absl::StrCat("it ended with ", ending);
  } else {
    const absl::Duration delay = process->restart.OnExit(lifetime);
    process->launch_at = clock_->Monotonic() + delay;
    ++process->restarts;
    options_.report(absl::StrCat(process->spec.name, " ended with ", ending,
                                 "; starting it again in ",
                                 absl::FormatDuration(delay)));
  }
  Publish();
}

bool Supervisor::AllListening() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const auto& process) { return process->listening; });
}

absl::Duration Supervisor::UntilNextLaunch() const {
  absl::Duration soonest = absl::InfiniteDuration();
  for (const auto& process : processes_) {
    if (draining_ || !process->launch_at.has_value()) continue;
    soonest = std::min(soonest, *process->launch_at - clock_->Monotonic());
  }
  return soonest;
}

bool Supervisor::Poll(absl::Duration wait) {
  std::vector<pollfd> fds = {{signals_->fd(), POLLIN, 0}};
  for (const auto& process : processes_) {
    const bool runs = process->child.has_value();
    // A negative descriptor is left out by poll.
    fds.push_back({runs ? process->child->exit_fd() : -1, POLLIN, 0});
    fds.push_back({runs ? process->child->output_fd() : -1, POLLIN, 0});
  }
  poll(fds.data(), fds.size(), PollTimeout(std::min(wait, UntilNextLaunch())));
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process* process = processes_[i].get();
    if (fds[2 + 2 * i].revents != 0) OnOutput(process);
    if (fds[1 + 2 * i].revents != 0) OnExit(process);
    if (!draining_ && process->launch_at.has_value() &&
        *process->launch_at <= clock_->Monotonic()) {
      Launch(process);
    }
  }
  return fds[0].revents != 0 && signals_->Take() != 0;
}

void Supervisor::EndRank(int rank) {
  const auto running = [&] {
    return std::any_of(
        processes_.begin(), processes_.end(), [&](const auto& process) {
          return process->spec.drain_rank == rank && process->child.has_value();
        });
  };
  const auto signal_rank = [&](int signal) {
    for (const auto& process : processes_) {
      if (process->spec.drain_rank != rank || !process->child) continue;
      process->child->Signal(signal);
    }
  };
  signal_rank(SIGTERM);
  const absl::Duration deadline = clock_->Monotonic() + options_.drain_timeout;
  while (running()) {
    const absl::Duration left = deadline - clock_->Monotonic();
    if (left <= absl::ZeroDuration() || Poll(left)) break;
  }
  if (!running()) return;
  options_.report("some processes did not end in time: killing them");
  signal_rank(SIGKILL);
  while (running()) Poll(absl::Seconds(1));
}

void Supervisor::Drain() {
  draining_ = true;
  ready_ = false;
  Publish();
  std::set<int> ranks;
  for (const auto& process : processes_) {
    ranks.insert(process->spec.drain_rank);
  }
  for (int rank : ranks) EndRank(rank);
  RemoveState();
}

void Supervisor::SetReady() {
  ready_ = true;
  Publish();
}

ClusterState Supervisor::State() const {
  ClusterState state;
  state.supervisor_pid = getpid();
  state.ready = ready_;
  state.log_dir = options_.log_dir;
  for (const auto& process : processes_) {
    state.processes.push_back(
        {process->spec.name, process->spec.role,
         process->child.has_value() ? process->child->pid() : 0,
         process->spec.grpc, process->spec.http, process->restarts});
  }
  return state;
}

void Supervisor::RemoveState() {
  if (options_.state_file.empty()) return;
  RemoveStateFile(options_.state_file, getpid());
}

void Supervisor::Publish() {
  if (options_.state_file.empty()) return;
  const absl::Status status = WriteStateFile(options_.state_file, State());
  if (!status.ok()) options_.report(std::string(status.message()));
}

}  // namespace baton::cli
