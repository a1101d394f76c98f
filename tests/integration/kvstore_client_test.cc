// GrpcKvStoreClient and the store's services, as long as nothing fails.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/api/process_service.h"
#include "kvstore/client/object_codec.h"
#include "services/base/executor.h"
#include "services/rpc/channel.h"
#include "services/rpc/server.h"
#include "tests/support/kvstore_fixture.h"

namespace baton::kvstore {
namespace {

using Code = absl::StatusCode;

TEST_F(KvStoreClientTest, PayloadsOfManyChunksRoundTrip) {
  const Lease lease = Grant(direct_.get(), "w");
  for (size_t size : {size_t{1}, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1,
                      3 * kChunkBytes, kBlockBytes}) {
    const auto payload = TestPayload(size, size);
    const auto object = direct_->Publish(
        lease, TestKey(static_cast<uint32_t>(size)), payload, false);
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ(object->payload_bytes, size);
    std::vector<std::byte> read(size);
    const absl::Status fetched = direct_->Fetch(lease, *object, read);
    ASSERT_TRUE(fetched.ok()) << fetched;
    EXPECT_EQ(read, payload);
  }
  EXPECT_EQ(MetricValue(metrics_.get(),
                        "baton_kv_transfer_duration_seconds_count{direction="
                        "\"push\",model_name=\"m\",transport=\"grpc\"}"),
            "6");
}

TEST_F(KvStoreClientTest, WhatIsThereAlreadyIsNotSentAgain) {
  std::atomic<int> chunks = 0;
  proxy_.on_write_chunk = [&](v1::WriteChunk*) { return ++chunks > 0; };
  auto client = Client(ProxyChannel());
  const auto first = Publish(client.get(), Grant(client.get(), "a"), 1);
  EXPECT_EQ(chunks, 3);
  const auto second = Publish(client.get(), Grant(client.get(), "b"), 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(chunks, 3);
  EXPECT_EQ(MetricValue(metrics_.get(),
                        "baton_kv_transfer_bytes_total{direction=\"push\","
                        "model_name=\"m\",transport=\"grpc\"}"),
            std::to_string(kBlockBytes));
}

TEST_F(KvStoreClientTest, TwoHandoffsShareAnObject) {
  const Lease a = Grant(direct_.get(), "a");
  ASSERT_TRUE(Publish(direct_.get(), a, 1).ok());
  const auto found = direct_->Lookup(
      HandoffId("b"), std::vector<BlockKey>{TestKey(1), TestKey(2)}, kTtl);
  ASSERT_EQ(found->hits.size(), 1u);
  EXPECT_NE(found->lease.id, a.id);
  ASSERT_TRUE(direct_->Release(a).ok());
  for (uint32_t n : {11, 12, 13, 14, 15, 16}) {  // evicts all that it may
    ASSERT_TRUE(Publish(direct_.get(), Grant(direct_.get(), "c"), n).ok() ||
                n == 16);
  }
  ASSERT_TRUE(direct_->Fetch(found->lease, found->hits[0], buffer_).ok());
  EXPECT_EQ(buffer_, TestPayload(kBlockBytes, 1));
}

TEST_F(KvStoreClientTest, EvictionSkipsWhatIsLeased) {
  const Lease lease = Grant(direct_.get(), "w");
  std::vector<ObjectInfo> objects;
  for (uint32_t n = 0; n < 6; ++n) {
    objects.push_back(Publish(direct_.get(), lease, n).value());
  }
  const Lease other = Grant(direct_.get(), "o");
  EXPECT_EQ(Publish(direct_.get(), other, 9).status().code(),
            Code::kResourceExhausted);
  EXPECT_EQ(Failures("no_room"), "1");
  for (const ObjectInfo& object : objects) {
    EXPECT_TRUE(direct_->Fetch(lease, object, buffer_).ok());
  }
  ASSERT_TRUE(direct_->Release(lease).ok());
  EXPECT_TRUE(Publish(direct_.get(), other, 9).ok());
}

TEST_F(KvStoreClientTest, AnEphemeralObjectIsReadThroughItsLeaseThenDropped) {
  const Lease lease = Grant(direct_.get(), "w");
  const auto object = Publish(direct_.get(), lease, 1, /*ephemeral=*/true);
  ASSERT_TRUE(object.ok());
  EXPECT_TRUE(Find(direct_.get(), "w", 1).empty());
  EXPECT_TRUE(direct_->Fetch(lease, *object, buffer_).ok());
  ASSERT_TRUE(direct_->Release(lease).ok());
  EXPECT_TRUE(direct_->Release(lease).ok());
  EXPECT_EQ(store_.live_bytes(), 0u);
}

TEST_F(KvStoreClientTest, ConcurrentPublishersAndReadersLeakNothing) {
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        auto client = Client(store_.Channel());
        std::vector<std::byte> buffer(kBlockBytes);
        for (int i = 0; i < 12; ++i) {
          const std::string handoff =
              std::to_string(t) + "-" + std::to_string(i);
          const Lease lease = Grant(client.get(), handoff);
          const uint32_t number = (t + i) % 8;
          const auto object =
              Publish(client.get(), lease, number, (t + i) % 3 == 0);
          if (object.ok()) {
            const absl::Status got = client->Fetch(lease, *object, buffer);
            if (!got.ok() || buffer != TestPayload(kBlockBytes, number)) {
              ++wrong;
            }
          } else if (!absl::IsResourceExhausted(object.status())) {
            ++wrong;
          }
          if (!client->Release(lease).ok()) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store_.index.GetStat().leases, 0u);
  EXPECT_EQ(store_.index.GetStat().pinned_objects, 0u);
  EXPECT_EQ(store_.index.GetStat().pending_writes, 0u);
  store_.index.Flush();
  EXPECT_EQ(store_.live_bytes(), 0u);
}

TEST_F(KvStoreClientTest, EverySeriesExistsFromTheStart) {
  TestStore fresh(Epoch(3), kBlockBytes, &clock_);
  for (const char* series :
       {"baton_kv_store_bytes{tier=\"mem\"}",
        "baton_kv_store_capacity_bytes{tier=\"mem\"}", "baton_kv_store_objects",
        "baton_kv_store_leases",
        "baton_kv_store_evictions_total{reason=\"capacity\"}",
        "baton_kv_store_lookups_total{result=\"partial\"}",
        "baton_kv_store_operations_total{code=\"ABORTED\",op=\"get\"}",
        "baton_kv_store_operation_duration_seconds_count{op=\"write\"}"}) {
    EXPECT_NE(MetricValue(fresh.metrics.get(), series), "absent") << series;
  }
  for (const char* reason :
       {"timeout", "crc", "layout", "unavailable", "expired", "no_room"}) {
    EXPECT_EQ(Failures(reason), "0") << reason;
  }
}

TEST_F(KvStoreClientTest, LookupsAndOperationsAreCounted) {
  const Lease lease = Grant(direct_.get(), "w");  // no keys: not counted
  ASSERT_TRUE(Publish(direct_.get(), lease, 1).ok());
  Find(direct_.get(), "r", 1);
  Find(direct_.get(), "r", 2);
  ASSERT_TRUE(direct_
                  ->Lookup(HandoffId("r"),
                           std::vector<BlockKey>{TestKey(1), TestKey(2)}, kTtl)
                  .ok());
  EXPECT_FALSE(direct_->Lookup(HandoffId(), {}, kTtl).ok());
  const auto lookups = [&](const std::string& result) {
    return MetricValue(
        store_.metrics.get(),
        "baton_kv_store_lookups_total{result=\"" + result + "\"}");
  };
  for (const char* result : {"hit", "partial", "miss", "error"}) {
    EXPECT_EQ(lookups(result), "1") << result;
  }
  EXPECT_EQ(MetricValue(store_.metrics.get(),
                        "baton_kv_store_operations_total{code=\"OK\",op="
                        "\"commit\"}"),
            "1");
}

// Over real sockets: the process's own services.
TEST_F(KvStoreClientTest, DrainWaitsForLeasesAndFlushDropsTheRest) {
  ThreadPoolExecutor executor({});
  std::atomic<int> drains = 0;
  AdminService admin(&store_.index, &wall_, &executor, [&] {
    ++drains;
    store_.index.StopAdmission();
  });
  DiscoveryService discovery(&store_.index, "1.2.3");
  auto server =
      rpc::Server::Start({}, {&admin, &discovery}, metrics_.get()).value();
  auto channel = rpc::MakeChannel(server->address());
  auto admin_stub = v1::AdminService::NewStub(channel);
  auto discovery_stub = v1::DiscoveryService::NewStub(channel);

  const Lease lease = Grant(direct_.get(), "w");
  ASSERT_TRUE(Publish(direct_.get(), lease, 1).ok());
  v1::ServerInfo info;
  v1::ServerLoad load;
  grpc::ClientContext info_context, load_context;
  ASSERT_TRUE(discovery_stub->GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.role(), v1::SERVER_ROLE_KVSTORE);
  EXPECT_EQ(info.epoch(), 1u);
  EXPECT_EQ(info.version(), "1.2.3");
  ASSERT_TRUE(discovery_stub->GetLoad(&load_context, {}, &load).ok());
  EXPECT_EQ(load.handoff_leases(), 1u);
  EXPECT_EQ(load.kv_blocks_used(), 1u);

  const auto drain = [&](absl::Duration deadline) {
    v1::DrainRequest request;
    *request.mutable_deadline() = EncodeDuration(deadline);
    v1::DrainResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(admin_stub->Drain(&context, request, &response).ok());
    return response.remaining_requests();
  };
  EXPECT_EQ(drain(absl::Milliseconds(60)), 1u);
  std::jthread release([&] { EXPECT_TRUE(direct_->Release(lease).ok()); });
  EXPECT_EQ(drain(absl::Seconds(60)), 0u);
  EXPECT_EQ(drains, 2);
  v1::FlushCacheResponse flushed;
  grpc::ClientContext flush_context;
  ASSERT_TRUE(admin_stub->FlushCache(&flush_context, {}, &flushed).ok());
  EXPECT_EQ(flushed.dropped_blocks(), 1u);
  server->Stop(absl::Seconds(1));
}

}  // namespace
}  // namespace baton::kvstore
