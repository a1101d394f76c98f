#include "services/base/executor.h"

#include <chrono>
#include <map>
#include <utility>

namespace baton {
namespace {

absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

struct ThreadPoolExecutor::State {
  Mutex mutex;
  CondVar wake;
  std::deque<std::function<void()>> ready ABSL_GUARDED_BY(mutex);
  std::multimap<absl::Duration, std::function<void()>> delayed
      ABSL_GUARDED_BY(mutex);
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  size_t max_queued = 0;  // constant after construction
};

ThreadPoolExecutor::ThreadPoolExecutor(const Options& options)
    : state_(std::make_unique<State>()) {
  state_->max_queued = options.max_queued;
  threads_.reserve(options.threads);
  for (size_t i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] { RunWorker(); });
  }
}

ThreadPoolExecutor::~ThreadPoolExecutor() {
  Stop();
  threads_.clear();
}

bool ThreadPoolExecutor::Post(std::function<void()> task) {
  MutexLock lock(&state_->mutex);
  if (state_->stopped || state_->ready.size() >= state_->max_queued) {
    return false;
  }
  state_->ready.push_back(std::move(task));
  state_->wake.SignalOne();
  return true;
}

bool ThreadPoolExecutor::PostAfter(absl::Duration delay,
                                   std::function<void()> task) {
  MutexLock lock(&state_->mutex);
  if (state_->stopped || state_->delayed.size() >= state_->max_queued) {
    return false;
  }
  state_->delayed.emplace(SteadyNow() + delay, std::move(task));
  state_->wake.SignalOne();
  return true;
}

bool ThreadPoolExecutor::stopped() const {
  MutexLock lock(&state_->mutex);
  return state_->stopped;
}

void ThreadPoolExecutor::Stop() {
  MutexLock lock(&state_->mutex);
  state_->stopped = true;
  state_->delayed.clear();
  state_->wake.SignalAll();
}

void ThreadPoolExecutor::RunWorker() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&state_->mutex);
      while (true) {
        if (!state_->delayed.empty()) {
          auto first = state_->delayed.begin();
          if (first->first <= SteadyNow()) {
            state_->ready.push_back(std::move(first->second));
            state_->delayed.erase(first);
            continue;
          }
        }
        if (!state_->ready.empty()) break;
        if (state_->stopped) return;
        if (state_->delayed.empty()) {
          state_->wake.Wait(&state_->mutex);
        } else {
          state_->wake.WaitWithTimeout(
              &state_->mutex, state_->delayed.begin()->first - SteadyNow());
        }
      }
      task = std::move(state_->ready.front());
      state_->ready.pop_front();
      // A thread that moved several delayed tasks leaves the rest to others.
      if (!state_->ready.empty()) state_->wake.SignalOne();
    }
    task();
  }
}

std::shared_ptr<Strand> Strand::Create(Executor* executor) {
  return std::shared_ptr<Strand>(new Strand(executor));
}

bool Strand::Post(std::function<void()> task) {
  // The executor's lock nests inside this one; it never takes this one.
  MutexLock lock(&mutex_);
  if (!scheduled_) {
    if (!executor_->Post([self = shared_from_this()] { self->RunSome(); })) {
      return false;
    }
    scheduled_ = true;
  }
  tasks_.push_back(std::move(task));
  return true;
}

bool Strand::PostAfter(absl::Duration delay, std::function<void()> task) {
  return executor_->PostAfter(
      delay, [self = shared_from_this(), task = std::move(task)]() mutable {
        self->Post(std::move(task));
      });
}

bool Strand::Dispatch(std::function<void()> task) {
  if (executor_->stopped()) return false;
  {
    MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    if (std::exchange(scheduled_, true)) return true;
  }
  RunSome();
  return true;
}

void Strand::RunSome() {
  // Yields after a few tasks, so that one busy strand does not hold a thread.
  for (int i = 0; i < 16; ++i) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      if (tasks_.empty()) {
        scheduled_ = false;
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
  if (!executor_->Post([self = shared_from_this()] { self->RunSome(); })) {
    MutexLock lock(&mutex_);
    scheduled_ = false;
  }
}

}  // namespace baton
