// A KV store in memory behind the client's interface, with faults at hand:
// flip a byte, expire leases, restart, be away, be slow. Thread-safe.
#ifndef BATON_TESTS_SUPPORT_FAKE_KVSTORE_H_
#define BATON_TESTS_SUPPORT_FAKE_KVSTORE_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/crc32c.h"
#include "services/base/mutex.h"

namespace baton::kvstore {

class FakeKvStore final : public KvStoreClient {
 public:
  struct Counts {
    int lookups = 0;
    int publishes = 0;
    int existing = 0;  // publishes that sent no byte
    int fetches = 0;
    int renewals = 0;
    int releases = 0;
    int refused = 0;  // calls while away
  };

  // Faults.

  // Every call fails with kUnavailable.
  void SetAway(bool away) {
    MutexLock lock(&mutex_);
    away_ = away;
  }
  // Publishing fails with `status` from now on (ok: no more).
  void FailPublishes(absl::Status status) {
    MutexLock lock(&mutex_);
    publish_fault_ = std::move(status);
  }
  // Publishing `key` fails for want of room.
  void RefuseKey(const BlockKey& key) {
    MutexLock lock(&mutex_);
    refused_keys_.insert(key);
  }
  // Damages the stored bytes of `key`. False: not there.
  bool FlipByte(const BlockKey& key) {
    MutexLock lock(&mutex_);
    auto it = objects_.find(key);
    if (it == objects_.end()) return false;
    it->second.bytes[it->second.bytes.size() / 2] ^= std::byte{0x10};
    return true;
  }
  bool Drop(const BlockKey& key) {
    MutexLock lock(&mutex_);
    return objects_.erase(key) > 0;
  }
  void ExpireLeases() {
    MutexLock lock(&mutex_);
    leases_.clear();
    DropEphemeral();
  }
  // A new boot: no leases, no objects, another epoch.
  void Restart() {
    MutexLock lock(&mutex_);
    leases_.clear();
    objects_.clear();
    epoch_ = Epoch(epoch_.value() + 1);
  }
  // Fetches (or publishes) wait until opened again; AwaitWaiting tells when
  // `count` of them do.
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
  }
  void Open() {
    MutexLock lock(&mutex_);
    closed_ = false;
    changed_.SignalAll();
  }
  void AwaitWaiting(int count) {
    MutexLock lock(&mutex_);
    while (waiting_ < count) changed_.Wait(&mutex_);
  }

  // What is there.

  Counts counts() const {
    MutexLock lock(&mutex_);
    return counts_;
  }
  size_t leases() const {
    MutexLock lock(&mutex_);
    return leases_.size();
  }
  size_t objects() const {
    MutexLock lock(&mutex_);
    return objects_.size();
  }
  size_t ephemeral_objects() const {
    MutexLock lock(&mutex_);
    return std::count_if(
        objects_.begin(), objects_.end(),
        [](const auto& entry) { return entry.second.ephemeral; });
  }
  bool Has(const BlockKey& key) const {
    MutexLock lock(&mutex_);
    return objects_.contains(key);
  }

  // KvStoreClient.

  absl::StatusOr<LookupResult> Lookup(const HandoffId& handoff,
                                      std::span<const BlockKey> keys,
                                      absl::Duration ttl) override {
    MutexLock lock(&mutex_);
    ++counts_.lookups;
    if (absl::Status status = Here(); !status.ok()) return status;
    LeaseId id;
    for (const auto& [known, held] : leases_) {
      if (held.handoff == handoff) id = known;
    }
    if (!id) {
      id = LeaseId(++last_lease_);
      leases_[id].handoff = handoff;
    }
    LookupResult result;
    result.lease = {id, epoch_};
    for (const BlockKey& key : keys) {
      auto it = objects_.find(key);
      if (it == objects_.end() || it->second.ephemeral) break;
      leases_[id].keys.insert(key);
      result.hits.push_back(it->second.info);
    }
    return result;
  }

  absl::StatusOr<ObjectInfo> Publish(const Lease& lease, const BlockKey& key,
                                     std::span<const std::byte> payload,
                                     bool ephemeral) override {
    MutexLock lock(&mutex_);
    ++counts_.publishes;
    WaitUntilOpen();
    if (absl::Status status = Here(); !status.ok()) return status;
    if (absl::Status status = Known(lease); !status.ok()) return status;
    if (!publish_fault_.ok()) return publish_fault_;
    if (refused_keys_.contains(key)) {
      return absl::ResourceExhaustedError("no room for this key");
    }
    leases_[lease.id].keys.insert(key);
    auto it = objects_.find(key);
    if (it != objects_.end()) {
      ++counts_.existing;
      return it->second.info;
    }
    Object& object = objects_[key];
    object.bytes.assign(payload.begin(), payload.end());
    object.ephemeral = ephemeral;
    object.info = {key, Generation(++last_generation_), payload.size(),
                   Crc32c(payload)};
    return object.info;
  }

  absl::Status Fetch(const Lease& lease, const ObjectInfo& info,
                     std::span<std::byte> payload) override {
    MutexLock lock(&mutex_);
    ++counts_.fetches;
    WaitUntilOpen();
    if (absl::Status status = Here(); !status.ok()) return status;
    if (absl::Status status = Known(lease); !status.ok()) return status;
    auto it = objects_.find(info.key);
    if (it == objects_.end() || it->second.info.generation != info.generation) {
      return absl::NotFoundError("fake: no such object");
    }
    // The bytes arrive even if they are bad, as they do over a wire.
    std::copy(it->second.bytes.begin(), it->second.bytes.end(),
              payload.begin());
    if (Crc32c(payload) == info.crc32c) return absl::OkStatus();
    objects_.erase(it);
    return absl::DataLossError("fake: checksum differs");
  }

  absl::Status Renew(const Lease& lease, absl::Duration ttl) override {
    MutexLock lock(&mutex_);
    ++counts_.renewals;
    changed_.SignalAll();
    if (absl::Status status = Here(); !status.ok()) return status;
    return Known(lease);
  }

  absl::Status Release(const Lease& lease) override {
    MutexLock lock(&mutex_);
    ++counts_.releases;
    if (absl::Status status = Here(); !status.ok()) return status;
    if (lease.epoch == epoch_) leases_.erase(lease.id);
    DropEphemeral();
    return absl::OkStatus();
  }

  std::string address() const override { return "127.0.0.1:1"; }

 private:
  struct Object {
    ObjectInfo info;
    std::vector<std::byte> bytes;
    bool ephemeral = false;
  };
  struct Held {
    HandoffId handoff;
    std::set<BlockKey> keys;
  };

  absl::Status Here() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!away_) return absl::OkStatus();
    ++counts_.refused;
    return absl::UnavailableError("fake: the store is away");
  }
  absl::Status Known(const Lease& lease) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (lease.epoch == epoch_ && leases_.contains(lease.id)) {
      return absl::OkStatus();
    }
    return absl::AbortedError("fake: lease or epoch is gone");
  }
  void WaitUntilOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++waiting_;
    changed_.SignalAll();
    while (closed_) changed_.Wait(&mutex_);
    --waiting_;
  }
  void DropEphemeral() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(objects_, [this](const auto& entry) {
      if (!entry.second.ephemeral) return false;
      return std::none_of(leases_.begin(), leases_.end(),
                          [&](const auto& held) {
                            return held.second.keys.contains(entry.first);
                          });
    });
  }

  mutable Mutex mutex_;
  CondVar changed_;
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status publish_fault_ ABSL_GUARDED_BY(mutex_);
  std::set<BlockKey> refused_keys_ ABSL_GUARDED_BY(mutex_);
  Epoch epoch_ ABSL_GUARDED_BY(mutex_){7};
  uint64_t last_lease_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<BlockKey, Object> objects_ ABSL_GUARDED_BY(mutex_);
  std::map<LeaseId, Held> leases_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::kvstore

#endif  // BATON_TESTS_SUPPORT_FAKE_KVSTORE_H_
