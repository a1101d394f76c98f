// The outgoing side of a streaming reactor: one write in flight, the rest
// waits, and what can be folded into the last waiting event is, so that a slow
// reader costs no more memory than its tokens do.
#ifndef BATON_WORKER_API_EVENT_QUEUE_H_
#define BATON_WORKER_API_EVENT_QUEUE_H_

#include <deque>
#include <optional>
#include <utility>

#include "services/base/mutex.h"

namespace baton::worker {

// Thread-safe. The reactor writes each event that Push or Next returns and
// calls Next when that write is done; after Close, the one caller that gets
// true from Close or TakeFinish finishes the call.
template <typename Event>
class EventQueue {
 public:
  // Folds `next` into `last` if it can; false = keep both.
  using Fold = bool (*)(const Event& next, Event* last);
  explicit EventQueue(Fold fold) : fold_(fold) {}

  // The event to write now; null if one is in flight or the queue is closed.
  const Event* Push(Event event) {
    MutexLock lock(&mutex_);
    if (closed_) return nullptr;
    if (waiting_.empty() || !fold_(event, &waiting_.back())) {
      waiting_.push_back(std::move(event));
    }
    return writing_.has_value() ? nullptr : StartLocked();
  }

  // The write in flight is done: the next one, or null.
  const Event* Next() {
    MutexLock lock(&mutex_);
    writing_.reset();
    return StartLocked();
  }

  // The reader is gone: what waits is of no use.
  void DropWaiting() {
    MutexLock lock(&mutex_);
    waiting_.clear();
  }

  // Nothing is pushed any more; what waits is still written.
  bool Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
    return TakeFinishLocked();
  }

  // True once: closed, and everything is written.
  bool TakeFinish() {
    MutexLock lock(&mutex_);
    return TakeFinishLocked();
  }

 private:
  const Event* StartLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (waiting_.empty()) return nullptr;
    writing_.emplace(std::move(waiting_.front()));
    waiting_.pop_front();
    return &*writing_;
  }
  bool TakeFinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!closed_ || writing_.has_value() || !waiting_.empty()) return false;
    return !std::exchange(finished_, true);
  }

  const Fold fold_;
  Mutex mutex_;
  std::deque<Event> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<Event> writing_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_API_EVENT_QUEUE_H_
