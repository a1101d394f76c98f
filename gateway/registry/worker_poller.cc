#include "gateway/registry/worker_poller.h"

#include <utility>

namespace baton::gateway {

std::shared_ptr<WorkerPoller> WorkerPoller::Create(const Options& options,
                                                   WorkerRegistry* registry,
                                                   WorkerProbe* probe,
                                                   Executor* executor,
                                                   FactsObserver on_facts) {
  return std::shared_ptr<WorkerPoller>(new WorkerPoller(
      options, registry, probe, executor, std::move(on_facts)));
}

WorkerPoller::WorkerPoller(const Options& options, WorkerRegistry* registry,
                           WorkerProbe* probe, Executor* executor,
                           FactsObserver on_facts)
    : options_(options),
      registry_(registry),
      probe_(probe),
      executor_(executor),
      on_facts_(std::move(on_facts)) {}

void WorkerPoller::Start() { RunRound(); }

void WorkerPoller::RunRound() {
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
  }
  PollOnce();
  executor_->PostAfter(options_.interval, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->RunRound();
  });
}

void WorkerPoller::PollOnce() {
  bool facts_round = false;
  {
    MutexLock lock(&mutex_);
    facts_round = round_++ % options_.rounds_between_facts == 0;
  }
  for (const std::string& address : registry_->Addresses()) {
    {
      MutexLock lock(&mutex_);
      if (stopped_) return;
      if (!probing_.insert(address).second) continue;
    }
    probe_->Probe(address, facts_round || registry_->NeedsInfo(address),
                  options_.timeout,
                  [weak = weak_from_this(), address](ProbeResult result) {
                    if (auto self = weak.lock())
                      self->OnResult(address, result);
                  });
  }
}

void WorkerPoller::OnResult(const std::string& address,
                            const ProbeResult& result) {
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    probing_.erase(address);
  }
  if (!result.status.ok()) {
    registry_->OnProbeFailed(address, result.status);
    return;
  }
  if (result.facts.has_value()) registry_->OnInfo(address, *result.facts);
  registry_->OnLoad(address, result.load, result.serving);
  if (result.facts.has_value() && on_facts_ &&
      registry_->BelongsToCluster(address)) {
    on_facts_(address, *result.facts);
  }
}

void WorkerPoller::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
}

}  // namespace baton::gateway
