// Asks each known worker, at a fixed interval, whether it can admit and
// finish; feeds the registry. Thread-safe.
#ifndef BATON_GATEWAY_REGISTRY_WORKER_POLLER_H_
#define BATON_GATEWAY_REGISTRY_WORKER_POLLER_H_

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "gateway/registry/worker_probe.h"
#include "gateway/registry/worker_registry.h"
#include "services/base/executor.h"
#include "services/base/mutex.h"

namespace baton::gateway {

class WorkerPoller : public std::enable_shared_from_this<WorkerPoller> {
 public:
  struct Options {
    absl::Duration interval = absl::Milliseconds(250);
    absl::Duration timeout = absl::Seconds(2);
    // Facts are asked for after each (re)connect and every so many rounds, in
    // case a restart fell between two probes.
    uint32_t rounds_between_facts = 20;
  };
  // Called, on any thread, with the facts of each worker of the cluster's
  // identity after they reached the registry.
  using FactsObserver =
      std::function<void(const std::string& address, const WorkerFacts&)>;

  // Pointers must outlive the poller's last task: stop it, then the executor,
  // before they go.
  static std::shared_ptr<WorkerPoller> Create(const Options& options,
                                              WorkerRegistry* registry,
                                              WorkerProbe* probe,
                                              Executor* executor,
                                              FactsObserver on_facts);

  // Starts the rounds; call once.
  void Start();
  // One round: probes each address that has no probe under way.
  void PollOnce();
  // No probe result is used after this returns. Idempotent.
  void Stop();

 private:
  WorkerPoller(const Options& options, WorkerRegistry* registry,
               WorkerProbe* probe, Executor* executor, FactsObserver on_facts);
  void RunRound();
  void OnResult(const std::string& address, const ProbeResult& result);

  const Options options_;
  WorkerRegistry* const registry_;
  WorkerProbe* const probe_;
  Executor* const executor_;
  const FactsObserver on_facts_;

  Mutex mutex_;
  std::set<std::string> probing_ ABSL_GUARDED_BY(mutex_);
  uint32_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_WORKER_POLLER_H_
