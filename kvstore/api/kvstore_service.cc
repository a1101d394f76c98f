#include "kvstore/api/kvstore_service.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/client/object_codec.h"
#include "services/base/crc32c.h"
#include "services/base/status_macros.h"
#include "services/rpc/grpc_status.h"

namespace baton::kvstore {
namespace {

absl::StatusOr<std::vector<BlockKey>> DecodeKeys(
    const v1::LookupRequest& request) {
  if (request.keys_size() > kMaxLookupKeys) {
    return absl::InvalidArgumentError(absl::StrCat(
        request.keys_size(), " keys exceed the bound of ", kMaxLookupKeys));
  }
  std::vector<BlockKey> keys;
  keys.reserve(request.keys_size());
  for (const std::string& raw : request.keys()) {
    BATON_ASSIGN_OR_RETURN(BlockKey key, BlockKey::FromRaw(raw));
    keys.push_back(key);
  }
  return keys;
}

// One call's time and outcome, counted when it is finished.
class Call {
 public:
  Call(Operation operation, const OperationMetrics* metrics, const Clock* clock)
      : operation_(operation),
        metrics_(metrics),
        clock_(clock),
        start_(clock->Monotonic()) {}

  grpc::Status Finish(const absl::Status& status) const {
    metrics_->Record(operation_, status, clock_->Monotonic() - start_);
    return rpc::ToGrpcStatus(status);
  }

 private:
  const Operation operation_;
  const OperationMetrics* const metrics_;
  const Clock* const clock_;
  const absl::Duration start_;
};

// Appends chunks until the client half-closes or one of them is refused.
class WriteReactor final : public grpc::ServerReadReactor<v1::WriteChunk> {
 public:
  WriteReactor(grpc::CallbackServerContext* context, ObjectIndex* index,
               const Call& call)
      : context_(context), index_(index), call_(call) {
    StartRead(&chunk_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(call_.Finish(context_->IsCancelled()
                              ? absl::CancelledError("the writer has gone")
                              : absl::OkStatus()));
      return;
    }
    const absl::Status status = Append();
    if (!status.ok()) {
      Finish(call_.Finish(status));
      return;
    }
    StartRead(&chunk_);
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Append() {
    const std::string& payload = chunk_.payload();
    if (payload.size() > kMaxChunkBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a chunk of ", payload.size(),
                       " bytes exceeds the bound of ", kMaxChunkBytes));
    }
    return index_->Write(
        Epoch(chunk_.epoch()), WriteId(chunk_.write_id()), chunk_.offset(),
        {reinterpret_cast<const std::byte*>(payload.data()), payload.size()},
        chunk_.crc32c());
  }

  grpc::CallbackServerContext* const context_;
  ObjectIndex* const index_;
  const Call call_;
  v1::WriteChunk chunk_;
};

// Sends an object chunk by chunk. Access is checked before each, so that a
// reader whose lease has ended is told at once, and after the last.
class GetReactor final : public grpc::ServerWriteReactor<v1::GetChunk> {
 public:
  GetReactor(const v1::GetRequest& request, ObjectIndex* index,
             const Call& call)
      : index_(index),
        call_(call),
        epoch_(request.epoch()),
        lease_(request.lease_id()),
        generation_(request.generation()),
        offset_(request.offset()) {
    const absl::StatusOr<BlockKey> key = BlockKey::FromRaw(request.key());
    if (!key.ok()) {
      Finish(call_.Finish(key.status()));
      return;
    }
    key_ = *key;
    SendNext();
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      SendNext();
    } else {
      Finish(call_.Finish(absl::CancelledError("the reader has gone")));
    }
  }

  void OnDone() override { delete this; }

 private:
  void SendNext() {
    absl::StatusOr<bool> more = FillChunk();
    if (!more.ok() || !*more) {
      Finish(call_.Finish(more.status()));
      return;
    }
    StartWrite(&chunk_);
  }

  // False at the end. The payload is not held while a chunk is on its way: a
  // reader that stands still keeps no evicted object in memory.
  absl::StatusOr<bool> FillChunk() {
    BATON_ASSIGN_OR_RETURN(const ObjectIndex::OpenObject object,
                           index_->Open(epoch_, lease_, key_, generation_));
    const std::span<const std::byte> payload = object.payload->bytes();
    if (offset_ > payload.size()) {
      return absl::InvalidArgumentError(absl::StrCat("offset ", offset_,
                                                     " is behind the end of ",
                                                     payload.size(), " bytes"));
    }
    if (offset_ == payload.size()) return false;
    const std::span<const std::byte> bytes = payload.subspan(
        offset_, std::min<uint64_t>(kChunkBytes, payload.size() - offset_));
    chunk_.set_offset(offset_);
    chunk_.set_payload(bytes.data(), bytes.size());
    chunk_.set_crc32c(Crc32c(bytes));
    offset_ += bytes.size();
    return true;
  }

  ObjectIndex* const index_;
  const Call call_;
  const Epoch epoch_;
  const LeaseId lease_;
  const Generation generation_;
  BlockKey key_;
  uint64_t offset_;
  v1::GetChunk chunk_;
};

}  // namespace

KvStoreService::KvStoreService(ObjectIndex* index, const Clock* clock,
                               telemetry::MetricsRegistry* metrics)
    : index_(index), clock_(clock), metrics_(metrics) {}

template <typename Work>
grpc::ServerUnaryReactor* KvStoreService::Answer(
    grpc::CallbackServerContext* context, Operation operation,
    const Work& work) {
  const Call call(operation, &metrics_, clock_);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(call.Finish(work()));
  return reactor;
}

grpc::ServerUnaryReactor* KvStoreService::Lookup(
    grpc::CallbackServerContext* context, const v1::LookupRequest* request,
    v1::LookupResponse* response) {
  const auto look_up = [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const absl::Duration ttl,
                           DecodeDuration(request->ttl()));
    BATON_ASSIGN_OR_RETURN(const std::vector<BlockKey> keys,
                           DecodeKeys(*request));
    BATON_ASSIGN_OR_RETURN(
        const ObjectIndex::Grant grant,
        index_->Lookup(HandoffId(request->handoff_id()), keys, ttl));
    response->set_epoch(index_->epoch().value());
    response->set_lease_id(grant.lease.value());
    for (const ObjectInfo& hit : grant.hits) {
      *response->add_hits() = EncodeObject(hit);
    }
    return absl::OkStatus();
  };
  return Answer(context, Operation::kLookup, [&] {
    const absl::Status status = look_up();
    metrics_.RecordLookup(status, request->keys_size(), response->hits_size());
    return status;
  });
}

grpc::ServerUnaryReactor* KvStoreService::Reserve(
    grpc::CallbackServerContext* context, const v1::ReserveRequest* request,
    v1::ReserveResponse* response) {
  return Answer(context, Operation::kReserve, [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const BlockKey key,
                           BlockKey::FromRaw(request->key()));
    BATON_ASSIGN_OR_RETURN(
        const ObjectIndex::Reservation reservation,
        index_->Reserve(Epoch(request->epoch()), LeaseId(request->lease_id()),
                        key, request->payload_bytes(), request->ephemeral()));
    if (reservation.existing.has_value()) {
      *response->mutable_existing() = EncodeObject(*reservation.existing);
    } else {
      response->set_write_id(reservation.write.value());
    }
    return absl::OkStatus();
  });
}

grpc::ServerReadReactor<v1::WriteChunk>* KvStoreService::Write(
    grpc::CallbackServerContext* context, v1::WriteResponse* /*response*/) {
  return new WriteReactor(context, index_,
                          Call(Operation::kWrite, &metrics_, clock_));
}

grpc::ServerUnaryReactor* KvStoreService::Commit(
    grpc::CallbackServerContext* context, const v1::CommitRequest* request,
    v1::CommitResponse* response) {
  return Answer(context, Operation::kCommit, [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(
        const ObjectInfo object,
        index_->Commit(Epoch(request->epoch()), WriteId(request->write_id()),
                       request->crc32c()));
    *response->mutable_object() = EncodeObject(object);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* KvStoreService::Renew(
    grpc::CallbackServerContext* context, const v1::RenewRequest* request,
    v1::RenewResponse* /*response*/) {
  return Answer(context, Operation::kRenew, [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const absl::Duration ttl,
                           DecodeDuration(request->ttl()));
    return index_->Renew(Epoch(request->epoch()), LeaseId(request->lease_id()),
                         ttl);
  });
}

grpc::ServerWriteReactor<v1::GetChunk>* KvStoreService::Get(
    grpc::CallbackServerContext* /*context*/, const v1::GetRequest* request) {
  return new GetReactor(*request, index_,
                        Call(Operation::kGet, &metrics_, clock_));
}

grpc::ServerUnaryReactor* KvStoreService::Release(
    grpc::CallbackServerContext* context, const v1::ReleaseRequest* request,
    v1::ReleaseResponse* /*response*/) {
  return Answer(context, Operation::kRelease, [&] {
    return index_->Release(Epoch(request->epoch()),
                           LeaseId(request->lease_id()));
  });
}

grpc::ServerUnaryReactor* KvStoreService::Delete(
    grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
    v1::DeleteResponse* /*response*/) {
  return Answer(context, Operation::kDelete, [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const BlockKey key,
                           BlockKey::FromRaw(request->key()));
    return index_->Delete(Epoch(request->epoch()), key,
                          Generation(request->generation()));
  });
}

grpc::ServerUnaryReactor* KvStoreService::Stat(
    grpc::CallbackServerContext* context, const v1::StatRequest* /*request*/,
    v1::StatResponse* response) {
  return Answer(context, Operation::kStat, [&] {
    const ObjectIndex::Stat stat = index_->GetStat();
    response->set_epoch(index_->epoch().value());
    response->set_objects(stat.objects);
    response->set_used_bytes(stat.used_bytes);
    response->set_capacity_bytes(stat.capacity_bytes);
    response->set_leases(stat.leases);
    response->set_pending_writes(stat.pending_writes);
    return absl::OkStatus();
  });
}

}  // namespace baton::kvstore
