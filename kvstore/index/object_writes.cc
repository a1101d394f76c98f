// The writer's half of ObjectIndex: Reserve, Write, Commit.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/index/object_index.h"
#include "services/base/crc32c.h"
#include "services/base/status_macros.h"

namespace baton::kvstore {

absl::StatusOr<ObjectIndex::PendingWrite*> ObjectIndex::LiveWriteLocked(
    WriteId write) {
  auto it = writes_.find(write);
  if (it == writes_.end()) return absl::AbortedError("the write has ended");
  BATON_RETURN_IF_ERROR(LiveLeaseLocked(it->second.lease).status());
  return &it->second;
}

absl::StatusOr<ObjectIndex::Reservation> ObjectIndex::Reserve(
    Epoch epoch, LeaseId lease, const BlockKey& key, uint64_t payload_bytes,
    bool ephemeral) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  if (payload_bytes == 0) {
    return absl::InvalidArgumentError("an object has at least one byte");
  }
  BATON_ASSIGN_OR_RETURN(Reservation reservation,
                         ReserveRoom(lease, key, payload_bytes, ephemeral));
  if (reservation.existing.has_value()) return reservation;
  // What was evicted for it is freed by now, so that the room is there.
  absl::StatusOr<std::shared_ptr<Payload>> payload =
      store_->Allocate(payload_bytes);
  if (!payload.ok()) {
    Dropped dropped;
    MutexLock lock(&mutex_);
    DropWriteLocked(reservation.write, &dropped);
    PublishGaugesLocked();
    return payload.status();
  }
  BATON_RETURN_IF_ERROR(AttachPayload(reservation.write, *std::move(payload)));
  return reservation;
}

absl::StatusOr<ObjectIndex::Reservation> ObjectIndex::ReserveRoom(
    LeaseId lease, const BlockKey& key, uint64_t payload_bytes,
    bool ephemeral) {
  Dropped dropped;
  MutexLock lock(&mutex_);
  BATON_ASSIGN_OR_RETURN(LeaseEntry * entry, LiveLeaseLocked(lease));
  Reservation reservation;
  if (auto it = objects_.find(key); it != objects_.end()) {
    BATON_ASSIGN_OR_RETURN(
        reservation.existing,
        PinExistingLocked(entry, &it->second, payload_bytes, ephemeral));
    return reservation;
  }
  if (writes_.size() >= options_.max_pending_writes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(writes_.size(), " writes are pending"));
  }
  PendingWrite pending;
  pending.key = key;
  pending.lease = lease;
  pending.payload_bytes = payload_bytes;
  pending.footprint = store_->Footprint(payload_bytes);
  pending.ephemeral = ephemeral;
  BATON_RETURN_IF_ERROR(MakeRoomLocked(pending.footprint, &dropped));
  used_bytes_ += pending.footprint;
  reservation.write = WriteId(++last_write_);
  entry->writes.insert(reservation.write);
  writes_.emplace(reservation.write, std::move(pending));
  PublishGaugesLocked();
  return reservation;
}

absl::Status ObjectIndex::AttachPayload(WriteId write,
                                        std::shared_ptr<Payload> payload) {
  MutexLock lock(&mutex_);
  BATON_ASSIGN_OR_RETURN(PendingWrite * pending, LiveWriteLocked(write));
  pending->payload = std::move(payload);
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> ObjectIndex::PinExistingLocked(
    LeaseEntry* lease, Object* object, uint64_t payload_bytes, bool ephemeral) {
  if (object->info.payload_bytes != payload_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("the key exists with ", object->info.payload_bytes,
                     " bytes, not ", payload_bytes));
  }
  object->ephemeral = object->ephemeral && ephemeral;
  PinLocked(lease, object);
  return object->info;
}

absl::Status ObjectIndex::Write(Epoch epoch, WriteId write, uint64_t offset,
                                std::span<const std::byte> bytes,
                                uint32_t crc32c) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  const bool damaged = Crc32c(bytes) != crc32c;
  std::shared_ptr<Payload> payload;
  uint32_t crc_so_far = 0;
  {
    Dropped dropped;
    MutexLock lock(&mutex_);
    BATON_ASSIGN_OR_RETURN(PendingWrite * pending, LiveWriteLocked(write));
    if (pending->writing || pending->payload == nullptr) {
      return absl::FailedPreconditionError("a write of it is running");
    }
    if (damaged) {
      DropWriteLocked(write, &dropped);
      PublishGaugesLocked();
      return absl::DataLossError("the chunk's CRC differs");
    }
    if (offset != pending->written || bytes.empty() ||
        bytes.size() > pending->payload_bytes - offset) {
      return absl::InvalidArgumentError(
          absl::StrCat("a chunk of ", bytes.size(), " bytes at ", offset,
                       " does not follow ", pending->written, " of ",
                       pending->payload_bytes));
    }
    pending->writing = true;
    payload = pending->payload;
    crc_so_far = pending->crc32c;
  }
  const std::span<std::byte> target =
      payload->bytes().subspan(offset, bytes.size());
  std::memcpy(target.data(), bytes.data(), bytes.size());
  crc_so_far = ExtendCrc32c(crc_so_far, target);
  MutexLock lock(&mutex_);
  // The lease may have ended meanwhile. The bytes then went to memory that
  // `payload` still kept for them.
  BATON_ASSIGN_OR_RETURN(PendingWrite * pending, LiveWriteLocked(write));
  pending->written = offset + bytes.size();
  pending->crc32c = crc_so_far;
  pending->writing = false;
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> ObjectIndex::Commit(Epoch epoch, WriteId write,
                                               uint32_t crc32c) {
  BATON_RETURN_IF_ERROR(CheckEpoch(epoch));
  Dropped dropped;
  MutexLock lock(&mutex_);
  BATON_ASSIGN_OR_RETURN(PendingWrite * pending, LiveWriteLocked(write));
  if (pending->writing) {
    return absl::FailedPreconditionError("a write of it is running");
  }
  if (pending->written != pending->payload_bytes || pending->crc32c != crc32c) {
    const std::string what =
        absl::StrCat("the payload arrived damaged: ", pending->written, " of ",
                     pending->payload_bytes, " bytes");
    DropWriteLocked(write, &dropped);
    PublishGaugesLocked();
    return absl::DataLossError(what);
  }
  LeaseEntry* const lease = leases_.Find(pending->lease);
  auto existing = objects_.find(pending->key);
  if (existing != objects_.end()) {
    const uint64_t payload_bytes = pending->payload_bytes;
    const bool ephemeral = pending->ephemeral;
    DropWriteLocked(write, &dropped);
    PublishGaugesLocked();
    return PinExistingLocked(lease, &existing->second, payload_bytes,
                             ephemeral);
  }
  lease->writes.erase(write);
  PendingWrite finished = std::move(*pending);
  writes_.erase(write);
  Object* const object = InsertLocked(std::move(finished));
  PinLocked(lease, object);
  PublishGaugesLocked();
  return object->info;
}

ObjectIndex::Object* ObjectIndex::InsertLocked(PendingWrite pending) {
  Object object;
  object.info.key = pending.key;
  object.info.generation = Generation(++last_generation_);
  object.info.payload_bytes = pending.payload_bytes;
  object.info.crc32c = pending.crc32c;
  object.payload = std::move(pending.payload);
  object.footprint = pending.footprint;
  object.ephemeral = pending.ephemeral;
  Object* const placed =
      &objects_.insert_or_assign(pending.key, std::move(object)).first->second;
  ListLocked(placed);
  return placed;
}

void ObjectIndex::DropWriteLocked(WriteId write, Dropped* dropped) {
  auto it = writes_.find(write);
  if (it == writes_.end()) return;
  PendingWrite& pending = it->second;
  used_bytes_ -= pending.footprint;
  if (pending.payload != nullptr) {
    dropped->push_back(std::move(pending.payload));
  }
  if (LeaseEntry* lease = leases_.Find(pending.lease)) {
    lease->writes.erase(write);
  }
  writes_.erase(it);
  metrics_.abandoned_writes->Increment();
}

}  // namespace baton::kvstore
