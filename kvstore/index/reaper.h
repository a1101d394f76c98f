// The timer that ends expired leases, whether or not any request comes.
#ifndef BATON_KVSTORE_INDEX_REAPER_H_
#define BATON_KVSTORE_INDEX_REAPER_H_

#include <thread>

#include "absl/time/time.h"
#include "kvstore/index/object_index.h"
#include "services/base/mutex.h"

namespace baton::kvstore {

// Calls index->Reap() every `interval` on a thread of its own. Thread-safe.
class Reaper {
 public:
  // `index` must outlive the reaper.
  Reaper(ObjectIndex* index, absl::Duration interval);
  ~Reaper();  // stops
  // Returns when no Reap runs or will run. Idempotent.
  void Stop();

 private:
  void Run();

  ObjectIndex* const index_;
  const absl::Duration interval_;
  Mutex mutex_;
  CondVar stop_changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: starts after, and joins before, the rest
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_INDEX_REAPER_H_
