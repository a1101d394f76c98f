// KvStoreClient over gRPC: payloads in chunks of kChunkBytes, each with its
// CRC32C. Nothing is retried here: what to do after a failure is the
// handoff's decision.
#ifndef BATON_KVSTORE_CLIENT_GRPC_KVSTORE_CLIENT_H_
#define BATON_KVSTORE_CLIENT_GRPC_KVSTORE_CLIENT_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "baton/v1/kvstore.grpc.pb.h"
#include "kvstore/client/kvstore_client.h"
#include "kvstore/client/transfer_metrics.h"
#include "services/base/clock.h"
#include "services/telemetry/metrics.h"

namespace baton::kvstore {

// Thread-safe.
class GrpcKvStoreClient final : public KvStoreClient {
 public:
  struct Options {
    std::string address;     // "host:port"
    std::string model_name;  // metric label
    absl::Duration call_timeout = absl::Seconds(2);
    // Of one payload's stream.
    absl::Duration transfer_timeout = absl::Seconds(10);
  };

  // Connects on first use. `metrics` and `clock` must outlive the client.
  static std::unique_ptr<GrpcKvStoreClient> Create(
      const Options& options, telemetry::MetricsRegistry* metrics,
      const Clock* clock);
  // Over a channel of the caller's.
  GrpcKvStoreClient(const Options& options,
                    std::shared_ptr<grpc::Channel> channel,
                    telemetry::MetricsRegistry* metrics, const Clock* clock);

  absl::StatusOr<LookupResult> Lookup(const HandoffId& handoff,
                                      std::span<const BlockKey> keys,
                                      absl::Duration ttl) override;
  absl::StatusOr<ObjectInfo> Publish(const Lease& lease, const BlockKey& key,
                                     std::span<const std::byte> payload,
                                     bool ephemeral) override;
  absl::Status Fetch(const Lease& lease, const ObjectInfo& object,
                     std::span<std::byte> payload) override;
  absl::Status Renew(const Lease& lease, absl::Duration ttl) override;
  absl::Status Release(const Lease& lease) override;
  std::string address() const override { return options_.address; }

 private:
  struct Sent {
    ObjectInfo object;
    uint64_t sent_bytes = 0;  // 0 if it was there already
  };
  absl::StatusOr<Sent> Send(const Lease& lease, const BlockKey& key,
                            std::span<const std::byte> payload, bool ephemeral);
  absl::Status SendPayload(const Lease& lease, uint64_t write_id,
                           std::span<const std::byte> payload);
  absl::Status ReceiveChecked(const Lease& lease, const ObjectInfo& object,
                              std::span<std::byte> payload);
  // From `offset` to the end; at the end of the payload it transfers nothing
  // and only asks whether lease and generation still hold.
  absl::Status Receive(const Lease& lease, const ObjectInfo& object,
                       uint64_t offset, std::span<std::byte> payload);
  void DropDamaged(const Lease& lease, const ObjectInfo& object);
  void SetDeadline(grpc::ClientContext* context, absl::Duration timeout) const;

  const Options options_;
  const std::unique_ptr<v1::KvStoreService::StubInterface> stub_;
  const Clock* const clock_;
  const TransferMetrics metrics_;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_CLIENT_GRPC_KVSTORE_CLIENT_H_
