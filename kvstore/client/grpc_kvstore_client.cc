#include "kvstore/client/grpc_kvstore_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kvstore/client/object_codec.h"
#include "services/base/crc32c.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"
#include "services/rpc/channel.h"
#include "services/rpc/grpc_status.h"

namespace baton::kvstore {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Copies one received chunk to its place, or says why it cannot be it.
absl::Status Accept(const v1::GetChunk& chunk, uint64_t expected_offset,
                    std::span<std::byte> payload) {
  const std::span<const std::byte> bytes = BytesOf(chunk.payload());
  if (chunk.offset() != expected_offset || bytes.empty() ||
      bytes.size() > payload.size() - expected_offset) {
    return absl::DataLossError(
        absl::StrCat("a chunk of ", bytes.size(), " bytes at ", chunk.offset(),
                     " came where ", expected_offset, " was expected"));
  }
  if (Crc32c(bytes) != chunk.crc32c()) {
    return absl::DataLossError("a chunk was damaged on the wire");
  }
  std::memcpy(payload.data() + expected_offset, bytes.data(), bytes.size());
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<GrpcKvStoreClient> GrpcKvStoreClient::Create(
    const Options& options, telemetry::MetricsRegistry* metrics,
    const Clock* clock) {
  return std::make_unique<GrpcKvStoreClient>(
      options, rpc::MakeChannel(options.address), metrics, clock);
}

GrpcKvStoreClient::GrpcKvStoreClient(const Options& options,
                                     std::shared_ptr<grpc::Channel> channel,
                                     telemetry::MetricsRegistry* metrics,
                                     const Clock* clock)
    : options_(options),
      stub_(v1::KvStoreService::NewStub(std::move(channel))),
      clock_(clock),
      metrics_(metrics, options.model_name, "grpc") {}

// gRPC takes wall-clock deadlines only, and turns them into its own monotonic
// ones at once.
void GrpcKvStoreClient::SetDeadline(grpc::ClientContext* context,
                                    absl::Duration timeout) const {
  context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

absl::StatusOr<LookupResult> GrpcKvStoreClient::Lookup(
    const HandoffId& handoff, std::span<const BlockKey> keys,
    absl::Duration ttl) {
  v1::LookupRequest request;
  request.set_handoff_id(handoff.value());
  for (const BlockKey& key : keys) request.add_keys(key.Raw());
  *request.mutable_ttl() = EncodeDuration(ttl);
  v1::LookupResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout);
  BATON_RETURN_IF_ERROR(
      rpc::FromGrpcStatus(stub_->Lookup(&context, request, &response)));
  LookupResult result;
  result.lease = {LeaseId(response.lease_id()), Epoch(response.epoch())};
  for (const v1::ObjectInfo& wire : response.hits()) {
    BATON_ASSIGN_OR_RETURN(ObjectInfo hit, DecodeObject(wire));
    if (result.hits.size() >= keys.size() ||
        hit.key != keys[result.hits.size()]) {
      return absl::InternalError("the store answered with another key");
    }
    result.hits.push_back(hit);
  }
  return result;
}

absl::StatusOr<ObjectInfo> GrpcKvStoreClient::Publish(
    const Lease& lease, const BlockKey& key, std::span<const std::byte> payload,
    bool ephemeral) {
  const absl::Duration start = clock_->Monotonic();
  absl::StatusOr<Sent> sent = Send(lease, key, payload, ephemeral);
  // An object that was there already is no transfer.
  if (!sent.ok() || sent->sent_bytes > 0) {
    metrics_.Record(TransferMetrics::Direction::kPush, sent.status(),
                    payload.size(), clock_->Monotonic() - start);
  }
  if (!sent.ok()) return sent.status();
  return sent->object;
}

absl::StatusOr<GrpcKvStoreClient::Sent> GrpcKvStoreClient::Send(
    const Lease& lease, const BlockKey& key, std::span<const std::byte> payload,
    bool ephemeral) {
  v1::ReserveRequest request;
  request.set_epoch(lease.epoch.value());
  request.set_lease_id(lease.id.value());
  request.set_key(key.Raw());
  request.set_payload_bytes(payload.size());
  request.set_ephemeral(ephemeral);
  v1::ReserveResponse reserved;
  {
    grpc::ClientContext context;
    SetDeadline(&context, options_.call_timeout);
    BATON_RETURN_IF_ERROR(
        rpc::FromGrpcStatus(stub_->Reserve(&context, request, &reserved)));
  }
  if (reserved.has_existing()) {
    BATON_ASSIGN_OR_RETURN(ObjectInfo existing,
                           DecodeObject(reserved.existing()));
    return Sent{existing, 0};
  }
  BATON_RETURN_IF_ERROR(SendPayload(lease, reserved.write_id(), payload));
  v1::CommitRequest commit;
  commit.set_epoch(lease.epoch.value());
  commit.set_write_id(reserved.write_id());
  commit.set_crc32c(Crc32c(payload));
  v1::CommitResponse committed;
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout);
  BATON_RETURN_IF_ERROR(
      rpc::FromGrpcStatus(stub_->Commit(&context, commit, &committed)));
  BATON_ASSIGN_OR_RETURN(ObjectInfo object, DecodeObject(committed.object()));
  return Sent{object, payload.size()};
}

absl::Status GrpcKvStoreClient::SendPayload(
    const Lease& lease, uint64_t write_id, std::span<const std::byte> payload) {
  grpc::ClientContext context;
  SetDeadline(&context, options_.transfer_timeout);
  v1::WriteResponse response;
  auto writer = stub_->Write(&context, &response);
  v1::WriteChunk chunk;
  chunk.set_epoch(lease.epoch.value());
  chunk.set_write_id(write_id);
  bool open = true;
  for (size_t offset = 0; open && offset < payload.size();
       offset += kChunkBytes) {
    const std::span<const std::byte> bytes =
        payload.subspan(offset, std::min(kChunkBytes, payload.size() - offset));
    chunk.set_offset(offset);
    chunk.set_payload(bytes.data(), bytes.size());
    chunk.set_crc32c(Crc32c(bytes));
    open = writer->Write(chunk);
  }
  if (open) writer->WritesDone();
  BATON_RETURN_IF_ERROR(rpc::FromGrpcStatus(writer->Finish()));
  if (!open) return absl::UnavailableError("the store stopped reading");
  return absl::OkStatus();
}

absl::Status GrpcKvStoreClient::Fetch(const Lease& lease,
                                      const ObjectInfo& object,
                                      std::span<std::byte> payload) {
  const absl::Duration start = clock_->Monotonic();
  const absl::Status status = ReceiveChecked(lease, object, payload);
  if (absl::IsDataLoss(status)) DropDamaged(lease, object);
  metrics_.Record(TransferMetrics::Direction::kPull, status, payload.size(),
                  clock_->Monotonic() - start);
  return status;
}

absl::Status GrpcKvStoreClient::ReceiveChecked(const Lease& lease,
                                               const ObjectInfo& object,
                                               std::span<std::byte> payload) {
  if (payload.size() != object.payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the object has ", object.payload_bytes,
                     " bytes, the buffer ", payload.size()));
  }
  BATON_RETURN_IF_ERROR(Receive(lease, object, 0, payload));
  // Over what the caller will use, not over what was received.
  if (Crc32c(payload) != object.crc32c) {
    return absl::DataLossError("the payload was damaged in the store");
  }
  return Receive(lease, object, payload.size(), payload);
}

absl::Status GrpcKvStoreClient::Receive(const Lease& lease,
                                        const ObjectInfo& object,
                                        uint64_t offset,
                                        std::span<std::byte> payload) {
  v1::GetRequest request;
  request.set_epoch(lease.epoch.value());
  request.set_lease_id(lease.id.value());
  request.set_key(object.key.Raw());
  request.set_generation(object.generation.value());
  request.set_offset(offset);
  grpc::ClientContext context;
  SetDeadline(&context, offset == payload.size() ? options_.call_timeout
                                                 : options_.transfer_timeout);
  auto reader = stub_->Get(&context, request);
  v1::GetChunk chunk;
  absl::Status accepted;
  while (accepted.ok() && reader->Read(&chunk)) {
    accepted = Accept(chunk, offset, payload);
    if (accepted.ok()) offset += chunk.payload().size();
  }
  if (!accepted.ok()) {
    context.TryCancel();
    // Says "cancelled", or what the store had said before it could know.
    const grpc::Status ignored = reader->Finish();
    return accepted;
  }
  BATON_RETURN_IF_ERROR(rpc::FromGrpcStatus(reader->Finish()));
  if (offset != payload.size()) {
    return absl::DataLossError(absl::StrCat("only ", offset, " of ",
                                            payload.size(), " bytes arrived"));
  }
  return absl::OkStatus();
}

void GrpcKvStoreClient::DropDamaged(const Lease& lease,
                                    const ObjectInfo& object) {
  v1::DeleteRequest request;
  request.set_epoch(lease.epoch.value());
  request.set_key(object.key.Raw());
  request.set_generation(object.generation.value());
  v1::DeleteResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout);
  const absl::Status deleted =
      rpc::FromGrpcStatus(stub_->Delete(&context, request, &response));
  Log(LogLevel::kWarning, "a damaged object was fetched",
      {{"store", options_.address},
       {"generation", object.generation.value()},
       {"delete", deleted.ToString()}});
}

absl::Status GrpcKvStoreClient::Renew(const Lease& lease, absl::Duration ttl) {
  v1::RenewRequest request;
  request.set_epoch(lease.epoch.value());
  request.set_lease_id(lease.id.value());
  *request.mutable_ttl() = EncodeDuration(ttl);
  v1::RenewResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout);
  return rpc::FromGrpcStatus(stub_->Renew(&context, request, &response));
}

absl::Status GrpcKvStoreClient::Release(const Lease& lease) {
  v1::ReleaseRequest request;
  request.set_epoch(lease.epoch.value());
  request.set_lease_id(lease.id.value());
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, options_.call_timeout);
  return rpc::FromGrpcStatus(stub_->Release(&context, request, &response));
}

}  // namespace baton::kvstore
