// The store leases that this worker holds: each is renewed by a heartbeat
// while somebody holds it and given back when nobody does. The book counts
// them, since draining waits for leases, not only for requests.
#ifndef BATON_WORKER_HANDOFF_LEASE_BOOK_H_
#define BATON_WORKER_HANDOFF_LEASE_BOOK_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/executor.h"
#include "services/base/mutex.h"

namespace baton::worker {

// A lease in use. Thread-safe. Its end is Release, HandOver or destruction.
class HeldLease {
 public:
  ~HeldLease();
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;

  const kvstore::Lease& lease() const;
  // The store said that it no longer knows the lease: nothing can be
  // published or fetched under it.
  bool lost() const;
  // Stops the heartbeat and gives the lease back, on the book's executor.
  // Idempotent; never blocks.
  void Release();
  // Stops the heartbeat and leaves the lease to whoever knows its id (the
  // manifest's receiver); it expires by itself if nobody comes.
  void HandOver();

 private:
  friend class LeaseBook;
  struct State;
  explicit HeldLease(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
};

// Thread-safe.
class LeaseBook {
 public:
  struct Options {
    absl::Duration ttl = absl::Seconds(10);
  };

  // `store` and `executor` must outlive this and every lease. Heartbeats and
  // releases run on `executor` and block for as long as a store call does.
  LeaseBook(const Options& options, kvstore::KvStoreClient* store,
            Executor* executor);

  // Starts the heartbeat (every ttl / 3) of a lease that was just granted.
  std::unique_ptr<HeldLease> Hold(const kvstore::Lease& lease);

  absl::Duration ttl() const { return options_.ttl; }
  // Leases held or being given back.
  uint32_t held() const;

 private:
  const Options options_;
  kvstore::KvStoreClient* const store_;
  Executor* const executor_;
  // Shared with releases that are still on their way.
  const std::shared_ptr<std::atomic<uint32_t>> held_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_LEASE_BOOK_H_
