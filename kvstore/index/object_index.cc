#include "kvstore/index/object_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"

namespace baton::kvstore {

ObjectIndex::ObjectIndex(const Options& options, PayloadStore* store,
                         const Clock* clock,
                         telemetry::MetricsRegistry* metrics)
    : options_(options), store_(store), clock_(clock), metrics_(metrics) {
  metrics_.capacity_bytes->Set(static_cast<double>(options_.capacity_bytes));
}

absl::Status ObjectIndex::CheckEpoch(Epoch epoch) const {
  if (epoch == options_.epoch) return absl::OkStatus();
  return absl::AbortedError("the store has been restarted since");
}

absl::StatusOr<absl::Duration> ObjectIndex::Deadline(absl::Duration ttl) const {
  if (ttl < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a lease cannot have a negative ttl");
  }
  if (ttl == absl::ZeroDuration()) ttl = options_.max_lease_ttl;
  return clock_->Monotonic() + std::min(ttl, options_.max_lease_ttl);
}

absl::StatusOr<LeaseEntry*> ObjectIndex::LiveLeaseLocked(LeaseId lease) {
  LeaseEntry* const entry = leases_.FindLive(lease, clock_->Monotonic());
  if (entry == nullptr) return absl::AbortedError("the lease has ended");
  return entry;
}

absl::StatusOr<LeaseEntry*> ObjectIndex::GrantLocked(const HandoffId& handoff,
                                                     absl::Duration deadline,
                                                     Dropped* dropped) {
  LeaseEntry* known = leases_.FindByHandoff(handoff);
  if (known != nullptr &&
      leases_.FindLive(known->id, clock_->Monotonic()) == nullptr) {
    // Whoever holds the old id has been told, or will be, that it is gone.
    EndLeaseLocked(known->id, LeaseEnd::kExpired, dropped);
    known = nullptr;
  }
  if (known == nullptr) {
    if (!admitting_) return absl::UnavailableError("the store is draining");
    if (leases_.size() >= options_.max_leases) {
      return absl::ResourceExhaustedError(
          absl::StrCat(leases_.size(), " leases are held"));
    }
  }
  return leases_.Grant(handoff, deadline);
}

absl::StatusOr<ObjectIndex::Grant> ObjectIndex::Lookup(
    const HandoffId& handoff, std::span<const BlockKey> keys,
    absl::Duration ttl) {
  if (handoff.empty()) {
    return absl::InvalidArgumentError("a look-up needs a handoff id");
  }
  BATON_ASSIGN_OR_RETURN(const absl::Duration deadline, Deadline(ttl));
  Dropped dropped;
  MutexLock lock(&mutex_);
  BATON_ASSIGN_OR_RETURN(LeaseEntry * lease,
                         GrantLocked(handoff, deadline, &dropped));
  Grant grant;
  grant.lease = lease->id;
  for (const BlockKey& key : keys) {
    auto it = objects_.find(key);
    if (it == objects_.end() || it->second.ephemeral) break;
    PinLocked(lease, &it->second);
    grant.hits.push_back(it->second.info);
  }
  PublishGaugesLocked();
  return grant;
}

absl::StatusOr<ObjectIndex::OpenObject> ObjectIndex::Open(
    Epoch epoch, LeaseId lease, const BlockKey& key, Generation generation) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  MutexLock lock(&mutex_);
  BATON_RETURN_IF_ERROR(LiveLeaseLocked(lease).status());
  auto it = objects_.find(key);
  if (it == objects_.end() || it->second.info.generation != generation) {
    return absl::NotFoundError("the object or its generation is gone");
  }
  return OpenObject{it->second.info, it->second.payload};
}

absl::Status ObjectIndex::Renew(Epoch epoch, LeaseId lease,
                                absl::Duration ttl) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  BATON_ASSIGN_OR_RETURN(const absl::Duration deadline, Deadline(ttl));
  MutexLock lock(&mutex_);
  BATON_ASSIGN_OR_RETURN(LeaseEntry * entry, LiveLeaseLocked(lease));
  entry->deadline = std::max(entry->deadline, deadline);
  return absl::OkStatus();
}

absl::Status ObjectIndex::Release(Epoch epoch, LeaseId lease) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  Dropped dropped;
  MutexLock lock(&mutex_);
  EndLeaseLocked(lease, LeaseEnd::kReleased, &dropped);
  PublishGaugesLocked();
  return absl::OkStatus();
}

absl::Status ObjectIndex::Delete(Epoch epoch, const BlockKey& key,
                                 Generation generation) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  Dropped dropped;
  MutexLock lock(&mutex_);
  auto it = objects_.find(key);
  if (it == objects_.end() || it->second.info.generation != generation) {
    return absl::NotFoundError("the object or its generation is gone");
  }
  DropObjectLocked(key, &dropped);
  metrics_.evicted_as_corrupt->Increment();
  PublishGaugesLocked();
  return absl::OkStatus();
}

void ObjectIndex::Reap() {
  Dropped dropped;
  MutexLock lock(&mutex_);
  for (LeaseId lease : leases_.Expired(clock_->Monotonic())) {
    EndLeaseLocked(lease, LeaseEnd::kExpired, &dropped);
  }
  PublishGaugesLocked();
}

uint64_t ObjectIndex::Flush() {
  Dropped dropped;
  MutexLock lock(&mutex_);
  while (!evictable_.empty()) {
    const BlockKey key = evictable_.front();
    DropObjectLocked(key, &dropped);
    metrics_.evicted_by_admin->Increment();
  }
  PublishGaugesLocked();
  return dropped.size();
}

void ObjectIndex::StopAdmission() {
  MutexLock lock(&mutex_);
  admitting_ = false;
}

ObjectIndex::Stat ObjectIndex::GetStat() const {
  MutexLock lock(&mutex_);
  Stat stat;
  stat.objects = objects_.size();
  stat.pinned_objects = objects_.size() - evictable_.size();
  stat.used_bytes = used_bytes_;
  stat.capacity_bytes = options_.capacity_bytes;
  stat.leases = leases_.size();
  stat.pending_writes = writes_.size();
  return stat;
}

void ObjectIndex::ListLocked(Object* object) {
  object->lru = evictable_.insert(evictable_.end(), object->info.key);
  evictable_bytes_ += object->footprint;
}

void ObjectIndex::UnlistLocked(Object* object) {
  evictable_.erase(object->lru);
  evictable_bytes_ -= object->footprint;
}

void ObjectIndex::PinLocked(LeaseEntry* lease, Object* object) {
  const LeaseEntry::Pin pin{object->info.key, object->info.generation};
  auto [it, first] =
      lease->pin_positions.try_emplace(pin.key, lease->pins.size());
  if (!first) {
    if (lease->pins[it->second].generation == pin.generation) return;
    it->second = lease->pins.size();  // the old one was deleted under us
  }
  lease->pins.push_back(pin);
  if (object->pins++ == 0) UnlistLocked(object);
}

void ObjectIndex::UnpinLocked(const LeaseEntry::Pin& pin, LeaseEnd end,
                              Dropped* dropped) {
  auto it = objects_.find(pin.key);
  if (it == objects_.end() || it->second.info.generation != pin.generation) {
    return;  // deleted under the lease
  }
  Object& object = it->second;
  if (--object.pins > 0) return;
  ListLocked(&object);
  if (!object.ephemeral) return;
  if (end == LeaseEnd::kExpired) metrics_.evicted_by_ttl->Increment();
  DropObjectLocked(pin.key, dropped);
}

void ObjectIndex::EndLeaseLocked(LeaseId lease, LeaseEnd end,
                                 Dropped* dropped) {
  const std::unique_ptr<LeaseEntry> entry = leases_.Remove(lease);
  if (entry == nullptr) return;
  for (WriteId write : entry->writes) {
    auto it = writes_.find(write);
    if (it == writes_.end()) continue;
    used_bytes_ -= it->second.footprint;
    if (it->second.payload != nullptr) {
      dropped->push_back(std::move(it->second.payload));
    }
    writes_.erase(it);
    metrics_.abandoned_writes->Increment();
  }
  // A prefix is of use from its first block on only: unpinned backwards, its
  // last block is the first to be evicted.
  for (auto pin = entry->pins.rbegin(); pin != entry->pins.rend(); ++pin) {
    UnpinLocked(*pin, end, dropped);
  }
}

absl::Status ObjectIndex::MakeRoomLocked(uint64_t footprint, Dropped* dropped) {
  if (footprint > options_.capacity_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an object of ", footprint, " bytes exceeds the store's ",
                     options_.capacity_bytes));
  }
  // Nothing is evicted for a reservation that would be refused all the same.
  const uint64_t leased = used_bytes_ - evictable_bytes_;
  if (leased > options_.capacity_bytes - footprint) {
    return absl::ResourceExhaustedError(absl::StrCat(
        leased, " of ", options_.capacity_bytes, " bytes are leased"));
  }
  while (used_bytes_ > options_.capacity_bytes - footprint) {
    const BlockKey key = evictable_.front();
    DropObjectLocked(key, dropped);
    metrics_.evicted_for_capacity->Increment();
  }
  return absl::OkStatus();
}

void ObjectIndex::DropObjectLocked(const BlockKey& key, Dropped* dropped) {
  auto it = objects_.find(key);
  Object& object = it->second;
  if (object.pins == 0) UnlistLocked(&object);
  used_bytes_ -= object.footprint;
  dropped->push_back(std::move(object.payload));
  objects_.erase(it);
}

void ObjectIndex::PublishGaugesLocked() {
  metrics_.bytes->Set(static_cast<double>(used_bytes_));
  metrics_.objects->Set(static_cast<double>(objects_.size()));
  metrics_.leases->Set(static_cast<double>(leases_.size()));
  metrics_.pending_writes->Set(static_cast<double>(writes_.size()));
}

}  // namespace baton::kvstore
