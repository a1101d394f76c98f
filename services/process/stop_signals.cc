#include "services/process/stop_signals.h"

#include <unistd.h>

namespace baton::process {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals_, number);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

void StopSignals::AwaitStop() {
  while (true) {
    const int number = sigwaitinfo(&signals_, nullptr);
    if (number == SIGTERM || number == SIGINT) return;
  }
}

bool StopSignals::AwaitStopFor(absl::Duration timeout) {
  const timespec limit = absl::ToTimespec(timeout);
  const int number = sigtimedwait(&signals_, nullptr, &limit);
  return number == SIGTERM || number == SIGINT;
}

bool StopSignals::AwaitWake() {
  while (true) {
    const int number = sigwaitinfo(&signals_, nullptr);
    if (number == SIGTERM || number == SIGINT) return false;
    if (number == SIGUSR1 && woken_.load()) return true;
  }
}

void StopSignals::Wake() {
  woken_ = true;
  kill(getpid(), SIGUSR1);
}

}  // namespace baton::process
