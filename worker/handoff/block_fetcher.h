// Reads several objects from the store at once, a few in flight, and says how
// long the leading run of good ones is: a prefix with a hole is no prefix.
#ifndef BATON_WORKER_HANDOFF_BLOCK_FETCHER_H_
#define BATON_WORKER_HANDOFF_BLOCK_FETCHER_H_

#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/executor.h"

namespace baton::worker {

struct FetchItem {
  kvstore::ObjectInfo object;
  // Of object.payload_bytes bytes; the caller keeps it alive.
  std::span<std::byte> destination;
};

struct FetchOutcome {
  // Leading items that were read and verified. Bytes of all later items are
  // unspecified and must not be used.
  size_t good = 0;
  // What ended the run; ok if all items are good, kCancelled on stop.
  absl::Status status;
};

// Thread-safe.
class BlockFetcher {
 public:
  // `store` and `executor` must outlive this; executor null = one at a time.
  BlockFetcher(kvstore::KvStoreClient* store, Executor* executor,
               size_t max_in_flight = 4);

  // Blocks until nothing is in flight. The calling thread fetches too, so that
  // a busy executor only costs parallelism. After a failure nothing new is
  // begun.
  FetchOutcome Fetch(const kvstore::Lease& lease,
                     const std::vector<FetchItem>& items,
                     std::stop_token stop) const;

 private:
  kvstore::KvStoreClient* const store_;
  Executor* const executor_;
  const size_t max_in_flight_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_BLOCK_FETCHER_H_
