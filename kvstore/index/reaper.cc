#include "kvstore/index/reaper.h"

namespace baton::kvstore {

Reaper::Reaper(ObjectIndex* index, absl::Duration interval)
    : index_(index), interval_(interval), thread_([this] { Run(); }) {}

Reaper::~Reaper() { Stop(); }

void Reaper::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stop_changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Reaper::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      // A spurious wake-up reaps early, which does no harm.
      if (!stopping_) stop_changed_.WaitWithTimeout(&mutex_, interval_);
      if (stopping_) return;
    }
    index_->Reap();
  }
}

}  // namespace baton::kvstore
