#include "worker/handoff/guarded_store.h"

#include "services/base/status_macros.h"

namespace baton::worker {

GuardedStore::GuardedStore(kvstore::KvStoreClient* store, const Clock* clock,
                           absl::Duration pause)
    : store_(store), clock_(clock), pause_(pause) {}

absl::Status GuardedStore::Admit() {
  MutexLock lock(&mutex_);
  if (!failed_) return absl::OkStatus();
  const absl::Duration now = clock_->Monotonic();
  if (now < retry_at_) {
    return absl::UnavailableError("KV store did not answer; pausing");
  }
  // The others keep failing fast until this one call has its answer.
  retry_at_ = now + pause_;
  return absl::OkStatus();
}

void GuardedStore::Note(const absl::Status& status) {
  const bool gone =
      absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  MutexLock lock(&mutex_);
  failed_ = gone;
  if (gone) retry_at_ = clock_->Monotonic() + pause_;
}

absl::StatusOr<kvstore::LookupResult> GuardedStore::Lookup(
    const HandoffId& handoff, std::span<const kvstore::BlockKey> keys,
    absl::Duration ttl) {
  BATON_RETURN_IF_ERROR(Admit());
  auto result = store_->Lookup(handoff, keys, ttl);
  Note(result.status());
  return result;
}

absl::StatusOr<kvstore::ObjectInfo> GuardedStore::Publish(
    const kvstore::Lease& lease, const kvstore::BlockKey& key,
    std::span<const std::byte> payload, bool ephemeral) {
  BATON_RETURN_IF_ERROR(Admit());
  auto result = store_->Publish(lease, key, payload, ephemeral);
  Note(result.status());
  return result;
}

absl::Status GuardedStore::Fetch(const kvstore::Lease& lease,
                                 const kvstore::ObjectInfo& object,
                                 std::span<std::byte> payload) {
  BATON_RETURN_IF_ERROR(Admit());
  absl::Status status = store_->Fetch(lease, object, payload);
  Note(status);
  return status;
}

absl::Status GuardedStore::Renew(const kvstore::Lease& lease,
                                 absl::Duration ttl) {
  BATON_RETURN_IF_ERROR(Admit());
  absl::Status status = store_->Renew(lease, ttl);
  Note(status);
  return status;
}

absl::Status GuardedStore::Release(const kvstore::Lease& lease) {
  BATON_RETURN_IF_ERROR(Admit());
  absl::Status status = store_->Release(lease);
  Note(status);
  return status;
}

}  // namespace baton::worker
