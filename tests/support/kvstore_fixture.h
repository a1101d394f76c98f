// The KV store's integration tests: a real service on loopback (a channel
// in process crashes in gRPC 1.51 once its server is gone), a client
// straight to it, and a proxy for clients that shall see faults.
#ifndef BATON_TESTS_SUPPORT_KVSTORE_FIXTURE_H_
#define BATON_TESTS_SUPPORT_KVSTORE_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/api/kvstore_service.h"
#include "kvstore/client/grpc_kvstore_client.h"
#include "kvstore/store/memory_arena.h"
#include "services/rpc/channel.h"
#include "services/rpc/server.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/kvstore_fakes.h"
#include "tests/support/kvstore_proxy.h"
#include "tests/support/manual_clock.h"

namespace baton::kvstore {

using telemetry::PrometheusMetrics;

inline constexpr size_t kBlockBytes =
    1'474'560;  // a 64-token block of a small model
inline constexpr absl::Duration kTtl = absl::Seconds(10);

// The value of `series` ("name{labels}") in the exposition, or "absent".
inline std::string MetricValue(PrometheusMetrics* metrics,
                               const std::string& series) {
  const std::string text = metrics->Exposition();
  const size_t at = text.find("\n" + series + " ");
  if (at == std::string::npos) return "absent";
  const size_t start = at + series.size() + 2;
  return text.substr(start, text.find('\n', start) - start);
}

// One life of a store: service, index and memory.
class TestStore {
 public:
  TestStore(Epoch epoch, uint64_t capacity_bytes, const Clock* clock)
      : arena_({2 * capacity_bytes, capacity_bytes}),
        flipping(&arena_),
        index(Options(epoch, capacity_bytes), &flipping, clock, metrics.get()),
        service_(&index, clock, metrics.get()) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  std::shared_ptr<grpc::Channel> Channel() {
    return rpc::MakeChannel(absl::StrCat("127.0.0.1:", port_));
  }
  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }
  uint64_t live_bytes() const { return arena_.live_bytes(); }

  const std::unique_ptr<PrometheusMetrics> metrics =
      PrometheusMetrics::Create("kvstore");

 private:
  static ObjectIndex::Options Options(Epoch epoch, uint64_t capacity_bytes) {
    ObjectIndex::Options options;
    options.epoch = epoch;
    options.capacity_bytes = capacity_bytes;
    return options;
  }

  MemoryArena arena_;

 public:
  FlippingPayloadStore flipping;
  ObjectIndex index;

 private:
  KvStoreService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class KvStoreClientTest : public testing::Test {
 protected:
  KvStoreClientTest() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &proxy_port_);
    builder.RegisterService(&proxy_);
    proxy_server_ = builder.BuildAndStart();
  }

  std::shared_ptr<grpc::Channel> ProxyChannel() {
    return rpc::MakeChannel(absl::StrCat("127.0.0.1:", proxy_port_));
  }
  std::unique_ptr<GrpcKvStoreClient> Client(
      std::shared_ptr<grpc::Channel> channel) {
    GrpcKvStoreClient::Options options;
    options.address = "loopback";
    options.model_name = "m";
    options.call_timeout = absl::Seconds(20);
    options.transfer_timeout = absl::Seconds(20);
    return std::make_unique<GrpcKvStoreClient>(options, channel, metrics_.get(),
                                               &wall_);
  }

  Lease Grant(KvStoreClient* client, const std::string& handoff) {
    return client->Lookup(HandoffId(handoff), {}, kTtl).value().lease;
  }
  std::vector<ObjectInfo> Find(KvStoreClient* client,
                               const std::string& handoff, uint32_t number) {
    return client
        ->Lookup(HandoffId(handoff), std::vector<BlockKey>{TestKey(number)},
                 kTtl)
        .value()
        .hits;
  }
  absl::StatusOr<ObjectInfo> Publish(KvStoreClient* client, const Lease& lease,
                                     uint32_t number, bool ephemeral = false) {
    return client->Publish(lease, TestKey(number),
                           TestPayload(kBlockBytes, number), ephemeral);
  }
  std::string Failures(const std::string& reason) {
    return MetricValue(
        metrics_.get(),
        "baton_kv_transfer_failures_total{model_name=\"m\",reason=\"" + reason +
            "\"}");
  }

  ManualClock clock_;
  SystemClock wall_;
  const std::unique_ptr<PrometheusMetrics> metrics_ =
      PrometheusMetrics::Create("decode");
  TestStore store_{Epoch(1), 6 * kBlockBytes, &clock_};
  KvStoreProxy proxy_{store_.Channel()};
  int proxy_port_ = 0;
  std::unique_ptr<grpc::Server> proxy_server_;
  std::unique_ptr<GrpcKvStoreClient> direct_ = Client(store_.Channel());
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kBlockBytes);
};

}  // namespace baton::kvstore

#endif  // BATON_TESTS_SUPPORT_KVSTORE_FIXTURE_H_
