// Where work runs. Edges post blocking work here, so that no RPC callback
// ever waits; decisions run on a strand, one task at a time.
#ifndef BATON_SERVICES_BASE_EXECUTOR_H_
#define BATON_SERVICES_BASE_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "services/base/mutex.h"

namespace baton {

// Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `task` later, on some thread of the executor, never in this call.
  // Returns false, without keeping the task, after Stop or when the bounded
  // queue is full.
  virtual bool Post(std::function<void()> task) = 0;
  // As Post, not before `delay` has passed.
  virtual bool PostAfter(absl::Duration delay, std::function<void()> task) = 0;
  // True once Post refuses for good.
  virtual bool stopped() const = 0;
};

class ThreadPoolExecutor final : public Executor {
 public:
  struct Options {
    size_t threads = 2;
    size_t max_queued = 65536;
  };

  explicit ThreadPoolExecutor(const Options& options);
  // Stops; joins.
  ~ThreadPoolExecutor() override;

  bool Post(std::function<void()> task) override;
  bool PostAfter(absl::Duration delay, std::function<void()> task) override;
  bool stopped() const override;
  // Refuses new work, runs what is queued, drops what is delayed. Idempotent.
  void Stop();

 private:
  struct State;
  void RunWorker();

  const std::unique_ptr<State> state_;
  std::vector<std::jthread> threads_;  // last: joins before the rest goes
};

// Runs tasks one at a time and in order, on the threads of `executor`.
class Strand final : public Executor,
                     public std::enable_shared_from_this<Strand> {
 public:
  // `executor` must outlive the strand and all of its tasks.
  static std::shared_ptr<Strand> Create(Executor* executor);
  bool Post(std::function<void()> task) override;
  bool PostAfter(absl::Duration delay, std::function<void()> task) override;
  bool stopped() const override { return executor_->stopped(); }
  // As Post, but an idle strand runs `task`, and what it posts here, in this
  // call: that spares a wake-up where one is most of the cost. The caller may
  // hold no lock that a task of the strand takes.
  bool Dispatch(std::function<void()> task);

 private:
  explicit Strand(Executor* executor) : executor_(executor) {}
  void RunSome();

  Executor* const executor_;
  Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton

#endif  // BATON_SERVICES_BASE_EXECUTOR_H_
