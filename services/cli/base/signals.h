// Interrupt and termination signals as a descriptor to poll, so that no code
// runs in a signal handler.
#ifndef BATON_SERVICES_CLI_BASE_SIGNALS_H_
#define BATON_SERVICES_CLI_BASE_SIGNALS_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "services/cli/base/unique_fd.h"

namespace baton::cli {

// Exit code of a command that ctrl-C or SIGTERM ended before it was done.
inline constexpr int kExitInterrupted = 130;

// Thread-compatible. Make it before any other thread starts: it blocks SIGINT
// and SIGTERM in the calling thread and in those started later.
class Signals {
 public:
  Signals();
  // Readable when a signal is there.
  int fd() const { return fd_.get(); }
  // The number of a signal that has come, or 0. Never waits.
  int Take();

 private:
  UniqueFd fd_;
};

// Calls `on_signal` on a thread of its own, for each signal that comes, until
// destroyed.
class SignalWatch {
 public:
  // `signals` must outlive it; nobody else may take from it meanwhile.
  SignalWatch(Signals* signals, std::function<void()> on_signal);
  ~SignalWatch();

 private:
  void Run(Signals* signals, const std::function<void()>& on_signal);

  UniqueFd end_;
  std::jthread thread_;  // last: joins before the descriptor closes
};

// What to pass to poll: at least 0, rounded up to whole milliseconds, at most
// an hour.
int PollTimeout(absl::Duration wait);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BASE_SIGNALS_H_
