#include "services/cli/base/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <csignal>

namespace baton::cli {

Signals::Signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

int Signals::Take() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

SignalWatch::SignalWatch(Signals* signals, std::function<void()> on_signal)
    : end_(eventfd(0, EFD_CLOEXEC)),
      thread_([this, signals, on_signal = std::move(on_signal)] {
        Run(signals, on_signal);
      }) {}

SignalWatch::~SignalWatch() {
  // A fresh counter takes the value without waiting.
  eventfd_write(end_.get(), 1);
}

void SignalWatch::Run(Signals* signals,
                      const std::function<void()>& on_signal) {
  while (true) {
    std::array<pollfd, 2> fds = {
        {{end_.get(), POLLIN, 0}, {signals->fd(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    if (fds[1].revents != 0 && signals->Take() != 0) on_signal();
  }
}

int PollTimeout(absl::Duration wait) {
  const absl::Duration held =
      std::clamp(wait, absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(held, absl::Milliseconds(1))));
}

}  // namespace baton::cli
