// SIGTERM and SIGINT, taken by the main thread alone, so that no handler ever
// runs beside other code. For main.cc.
#ifndef BATON_SERVICES_PROCESS_STOP_SIGNALS_H_
#define BATON_SERVICES_PROCESS_STOP_SIGNALS_H_

#include <signal.h>

#include <atomic>

#include "absl/time/time.h"

namespace baton::process {

// Main thread only, but for Wake.
class StopSignals {
 public:
  // Blocks the signals for all threads to come and ignores SIGPIPE: construct
  // it before the first thread is started.
  StopSignals();
  void AwaitStop();
  // True if one came before `timeout` had passed.
  bool AwaitStopFor(absl::Duration timeout);
  // True once another thread has called Wake, false if asked to stop first.
  bool AwaitWake();
  // Thread-safe; once.
  void Wake();

 private:
  sigset_t signals_;
  std::atomic<bool> woken_ = false;  // read after SIGUSR1 has arrived
};

}  // namespace baton::process

#endif  // BATON_SERVICES_PROCESS_STOP_SIGNALS_H_
