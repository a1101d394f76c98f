#include "worker/handoff/block_fetcher.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "services/base/mutex.h"

namespace baton::worker {
namespace {

// One Fetch. Shared with the executor's tasks, which may start after it has
// returned; then they find nothing left to take.
struct Round {
  kvstore::KvStoreClient* store;
  kvstore::Lease lease;
  std::vector<FetchItem> items;
  std::stop_token stop;

  Mutex mutex;
  CondVar idle;
  size_t next ABSL_GUARDED_BY(mutex) = 0;
  size_t in_flight ABSL_GUARDED_BY(mutex) = 0;
  bool closed ABSL_GUARDED_BY(mutex) = false;
  std::vector<std::optional<absl::Status>> results ABSL_GUARDED_BY(mutex);

  std::optional<size_t> Take() {
    MutexLock lock(&mutex);
    if (closed || next == items.size() || stop.stop_requested()) {
      return std::nullopt;
    }
    ++in_flight;
    return next++;
  }

  void Put(size_t index, absl::Status status) {
    MutexLock lock(&mutex);
    if (!status.ok()) closed = true;
    results[index] = std::move(status);
    if (--in_flight == 0) idle.SignalAll();
  }

  void Run() {
    while (std::optional<size_t> index = Take()) {
      const FetchItem& item = items[*index];
      absl::Status status =
          item.destination.size() == item.object.payload_bytes
              ? store->Fetch(lease, item.object, item.destination)
              : absl::InternalError("destination of another size");
      Put(*index, std::move(status));
    }
  }
};

}  // namespace

BlockFetcher::BlockFetcher(kvstore::KvStoreClient* store, Executor* executor,
                           size_t max_in_flight)
    : store_(store), executor_(executor), max_in_flight_(max_in_flight) {}

FetchOutcome BlockFetcher::Fetch(const kvstore::Lease& lease,
                                 const std::vector<FetchItem>& items,
                                 std::stop_token stop) const {
  if (items.empty()) return {};
  auto round = std::make_shared<Round>();
  round->store = store_;
  round->lease = lease;
  round->items = items;
  round->stop = stop;
  {
    MutexLock lock(&round->mutex);
    round->results.resize(items.size());
  }
  const size_t others =
      executor_ == nullptr ? 0 : std::min(max_in_flight_, items.size()) - 1;
  for (size_t i = 0; i < others; ++i) {
    if (!executor_->Post([round] { round->Run(); })) break;
  }
  round->Run();
  MutexLock lock(&round->mutex);
  // From here on no task begins: the destinations are the caller's again.
  round->closed = true;
  while (round->in_flight > 0) round->idle.Wait(&round->mutex);
  FetchOutcome outcome;
  for (const std::optional<absl::Status>& result : round->results) {
    if (!result.has_value()) {
      outcome.status = absl::CancelledError("fetch stopped");
      break;
    }
    if (!result->ok()) {
      outcome.status = *result;
      break;
    }
    ++outcome.good;
  }
  return outcome;
}

}  // namespace baton::worker
