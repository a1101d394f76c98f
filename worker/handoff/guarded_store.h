// A circuit breaker around a KvStoreClient: after a call found the store gone,
// calls fail at once for a short while, so that a dead store costs each
// request nothing and not one timeout after another. One call at a time tries
// again when the pause is over.
#ifndef BATON_WORKER_HANDOFF_GUARDED_STORE_H_
#define BATON_WORKER_HANDOFF_GUARDED_STORE_H_

#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"

namespace baton::worker {

// Thread-safe. Errors are the store's own, and kUnavailable while open.
class GuardedStore final : public kvstore::KvStoreClient {
 public:
  // `store` and `clock` must outlive this.
  GuardedStore(kvstore::KvStoreClient* store, const Clock* clock,
               absl::Duration pause = absl::Seconds(1));

  absl::StatusOr<kvstore::LookupResult> Lookup(
      const HandoffId& handoff, std::span<const kvstore::BlockKey> keys,
      absl::Duration ttl) override;
  absl::StatusOr<kvstore::ObjectInfo> Publish(
      const kvstore::Lease& lease, const kvstore::BlockKey& key,
      std::span<const std::byte> payload, bool ephemeral) override;
  absl::Status Fetch(const kvstore::Lease& lease,
                     const kvstore::ObjectInfo& object,
                     std::span<std::byte> payload) override;
  absl::Status Renew(const kvstore::Lease& lease, absl::Duration ttl) override;
  absl::Status Release(const kvstore::Lease& lease) override;
  std::string address() const override { return store_->address(); }

 private:
  // Ok if a call may go out; kUnavailable during the pause.
  absl::Status Admit();
  void Note(const absl::Status& status);

  kvstore::KvStoreClient* const store_;
  const Clock* const clock_;
  const absl::Duration pause_;
  Mutex mutex_;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // Monotonic; while failed_, the next moment at which one call may try.
  absl::Duration retry_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_GUARDED_STORE_H_
