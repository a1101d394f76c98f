// Announces this worker to a gateway, again and again: the first call
// registers, the others are heartbeats. A gateway that is away is tried again
// every second, so a restarted one knows its workers soon. Edge code.
#ifndef BATON_WORKER_API_REGISTRATION_CLIENT_H_
#define BATON_WORKER_API_REGISTRATION_CLIENT_H_

#include <memory>
#include <string>

#include "services/base/executor.h"
#include "services/base/ids.h"

namespace baton::worker {

// Thread-safe.
class RegistrationClient {
 public:
  struct Options {
    std::string gateway;  // "host:port"
    WorkerId worker;
    std::string address;  // this worker's, as the gateway reaches it
    Epoch epoch;
  };

  // Starts. Calls are asynchronous; `timers` only spaces them and must
  // outlive this.
  RegistrationClient(const Options& options, Executor* timers);
  // Cancels the call in flight and waits for its callback.
  ~RegistrationClient();

 private:
  struct State;
  static void CallNow(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_API_REGISTRATION_CLIENT_H_
