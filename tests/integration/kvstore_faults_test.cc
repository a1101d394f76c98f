// Each row of the fault table of kvstore/README.md: bits flipped, chunks lost,
// leases, writers and stores gone.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <vector>

#include "kvstore/client/object_codec.h"
#include "services/base/crc32c.h"
#include "tests/support/await.h"
#include "tests/support/kvstore_fixture.h"

namespace baton::kvstore {
namespace {

using Code = absl::StatusCode;

TEST_F(KvStoreClientTest, ABitFlippedOnTheWayInIsRefusedAndCounted) {
  proxy_.on_write_chunk = [](v1::WriteChunk* chunk) {
    if (chunk->offset() > 0) (*chunk->mutable_payload())[77] ^= 4;
    return true;
  };
  auto client = Client(ProxyChannel());
  const Lease lease = Grant(client.get(), "w");
  EXPECT_EQ(Publish(client.get(), lease, 1).status().code(), Code::kDataLoss);
  EXPECT_EQ(Failures("crc"), "1");
  EXPECT_TRUE(Find(direct_.get(), "r", 1).empty());
  EXPECT_EQ(store_.live_bytes(), 0u);
}

TEST_F(KvStoreClientTest, ABitFlippedOnTheWayOutIsCountedAndDropped) {
  proxy_.on_get_chunk = [](v1::GetChunk* chunk) {
    if (chunk->offset() > 0) (*chunk->mutable_payload())[9] ^= 1;
    return true;
  };
  auto client = Client(ProxyChannel());
  const Lease lease = Grant(client.get(), "w");
  const auto object = Publish(client.get(), lease, 1);
  EXPECT_EQ(client->Fetch(lease, *object, buffer_).code(), Code::kDataLoss);
  EXPECT_EQ(Failures("crc"), "1");
  EXPECT_TRUE(Find(direct_.get(), "r", 1).empty());
}

TEST_F(KvStoreClientTest, ABitFlippedInTheStoreIsCountedAndDropped) {
  const Lease lease = Grant(direct_.get(), "w");
  const auto object = Publish(direct_.get(), lease, 1);
  ASSERT_TRUE(store_.flipping.FlipBit(0, kBlockBytes - 1));
  EXPECT_EQ(direct_->Fetch(lease, *object, buffer_).code(), Code::kDataLoss);
  EXPECT_EQ(Failures("crc"), "1");
  EXPECT_TRUE(Find(direct_.get(), "r", 1).empty());
  EXPECT_EQ(MetricValue(store_.metrics.get(),
                        "baton_kv_store_evictions_total{reason=\"corrupt\"}"),
            "1");
  // Computed and published again, it is sound, and another generation.
  const auto again = Publish(direct_.get(), lease, 1);
  ASSERT_TRUE(again.ok());
  EXPECT_NE(again->generation, object->generation);
  EXPECT_TRUE(direct_->Fetch(lease, *again, buffer_).ok());
  EXPECT_EQ(direct_->Fetch(lease, *object, buffer_).code(), Code::kNotFound);
}

TEST_F(KvStoreClientTest, ALostChunkIsNoticedEitherWay) {
  std::atomic<bool> lose_writes = true;
  proxy_.on_write_chunk = [&](v1::WriteChunk* chunk) {
    return !(lose_writes && chunk->offset() == 2 * kChunkBytes);  // the last
  };
  proxy_.on_get_chunk = [&](v1::GetChunk* chunk) {
    return chunk->offset() != 2 * kChunkBytes;
  };
  auto client = Client(ProxyChannel());
  const Lease lease = Grant(client.get(), "w");
  EXPECT_EQ(Publish(client.get(), lease, 1).status().code(), Code::kDataLoss);
  lose_writes = false;
  const auto object = Publish(client.get(), lease, 1);
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(client->Fetch(lease, *object, buffer_).code(), Code::kDataLoss);
}

// The lease ends while chunks are on their way: whatever was copied is void.
TEST_F(KvStoreClientTest, ALeaseThatExpiresDuringAFetchAborts) {
  auto client = Client(ProxyChannel());
  const Lease lease = Grant(client.get(), "w");
  const auto object = Publish(client.get(), lease, 1);
  ASSERT_TRUE(object.ok());
  proxy_.on_get_chunk = [&](v1::GetChunk* chunk) {
    if (chunk->offset() == 2 * kChunkBytes) clock_.Advance(kTtl);
    return true;
  };
  EXPECT_EQ(client->Fetch(lease, *object, buffer_).code(), Code::kAborted);
  EXPECT_EQ(Failures("expired"), "1");
}

// All bytes arrived and are sound, but the object was replaced meanwhile.
TEST_F(KvStoreClientTest, AnObjectDeletedDuringAFetchIsNotUsed) {
  auto client = Client(ProxyChannel());
  const Lease lease = Grant(client.get(), "w");
  const auto object = Publish(client.get(), lease, 1);
  ASSERT_TRUE(object.ok());
  proxy_.on_get_chunk = [&](v1::GetChunk* chunk) {
    if (chunk->offset() == 2 * kChunkBytes) {
      EXPECT_TRUE(
          store_.index.Delete(Epoch(1), object->key, object->generation).ok());
    }
    return true;
  };
  EXPECT_EQ(client->Fetch(lease, *object, buffer_).code(), Code::kNotFound);
  EXPECT_EQ(store_.live_bytes(), 0u);
}

TEST_F(KvStoreClientTest, ARestartedStoreAbortsOldLeases) {
  const Lease lease = Grant(direct_.get(), "w");
  const auto object = Publish(direct_.get(), lease, 1);
  ASSERT_TRUE(object.ok());
  TestStore restarted(Epoch(2), 6 * kBlockBytes, &clock_);
  auto client = Client(restarted.Channel());
  EXPECT_EQ(client->Fetch(lease, *object, buffer_).code(), Code::kAborted);
  EXPECT_EQ(Publish(client.get(), lease, 1).status().code(), Code::kAborted);
  EXPECT_EQ(client->Renew(lease, kTtl).code(), Code::kAborted);
  EXPECT_EQ(Failures("expired"), "2");
  EXPECT_EQ(Grant(client.get(), "w").epoch, Epoch(2));
}

TEST_F(KvStoreClientTest, ADeadStoreIsUnavailable) {
  const Lease lease = Grant(direct_.get(), "w");
  store_.Stop();
  EXPECT_EQ(Publish(direct_.get(), lease, 1).status().code(),
            Code::kUnavailable);
  EXPECT_EQ(direct_->Lookup(HandoffId("h"), {}, kTtl).status().code(),
            Code::kUnavailable);
  EXPECT_EQ(Failures("unavailable"), "1");
}

TEST_F(KvStoreClientTest, AStoreThatStandsStillTimesOut) {
  // Shared: the proxy's thread may leave wait() after the test has ended.
  const auto stuck = std::make_shared<std::latch>(1);
  proxy_.on_get_chunk = [stuck](v1::GetChunk*) {
    stuck->wait();
    return true;
  };
  GrpcKvStoreClient::Options options;
  options.model_name = "m";
  options.transfer_timeout = absl::Milliseconds(200);
  options.call_timeout = absl::Seconds(20);
  GrpcKvStoreClient client(options, ProxyChannel(), metrics_.get(), &wall_);
  const Lease lease = Grant(&client, "w");
  const auto object = Publish(direct_.get(), lease, 1);
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(client.Fetch(lease, *object, buffer_).code(),
            Code::kDeadlineExceeded);
  EXPECT_EQ(Failures("timeout"), "1");
  stuck->count_down();
}

// The writer dies in mid-stream. Its half is never seen, and gone with its
// lease.
TEST_F(KvStoreClientTest, ADeadWritersHalfIsReaped) {
  const Lease lease = Grant(direct_.get(), "w");
  auto stub = v1::KvStoreService::NewStub(store_.Channel());
  v1::ReserveRequest request;
  request.set_epoch(1);
  request.set_lease_id(lease.id.value());
  request.set_key(TestKey(1).Raw());
  request.set_payload_bytes(kBlockBytes);
  v1::ReserveResponse reserved;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Reserve(&context, request, &reserved).ok());
  }
  {
    grpc::ClientContext context;
    v1::WriteResponse response;
    auto writer = stub->Write(&context, &response);
    const auto half = TestPayload(kChunkBytes, 1);
    v1::WriteChunk chunk;
    chunk.set_epoch(1);
    chunk.set_write_id(reserved.write_id());
    chunk.set_payload(half.data(), half.size());
    chunk.set_crc32c(Crc32c(half));
    ASSERT_TRUE(writer->Write(chunk));
    context.TryCancel();
    EXPECT_FALSE(writer->Finish().ok());
  }
  EXPECT_TRUE(Find(direct_.get(), "r", 1).empty());
  EXPECT_EQ(store_.index.GetStat().pending_writes, 1u);
  clock_.Advance(kTtl);
  store_.index.Reap();
  EXPECT_EQ(store_.index.GetStat().pending_writes, 0u);
  EXPECT_EQ(store_.index.GetStat().used_bytes, 0u);
  // The writer's call keeps its room until it has seen the cancellation.
  EXPECT_TRUE(testing_support::Await(
      [this] { return store_.live_bytes() == 0; }, absl::Seconds(10)));
}

TEST_F(KvStoreClientTest, MalformedRequestsAreRefused) {
  auto stub = v1::KvStoreService::NewStub(store_.Channel());
  const auto look_up = [&](const v1::LookupRequest& request) {
    grpc::ClientContext context;
    v1::LookupResponse response;
    return stub->Lookup(&context, request, &response).error_code();
  };
  v1::LookupRequest request;
  EXPECT_EQ(look_up(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_handoff_id("h");
  EXPECT_EQ(look_up(request), grpc::StatusCode::OK);
  request.add_keys("short");
  EXPECT_EQ(look_up(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.clear_keys();
  request.mutable_ttl()->set_nanos(-2'000'000'000);
  EXPECT_EQ(look_up(request), grpc::StatusCode::INVALID_ARGUMENT);
  request.mutable_ttl()->set_nanos(0);
  for (int i = 0; i <= kMaxLookupKeys; ++i) request.add_keys(TestKey(i).Raw());
  EXPECT_EQ(look_up(request), grpc::StatusCode::INVALID_ARGUMENT);

  const Lease lease = Grant(direct_.get(), "h");
  const auto object = Publish(direct_.get(), lease, 1);
  grpc::ClientContext context;
  v1::GetRequest get;
  get.set_epoch(1);
  get.set_lease_id(lease.id.value());
  get.set_key(object->key.Raw());
  get.set_generation(object->generation.value());
  get.set_offset(kBlockBytes + 1);
  auto reader = stub->Get(&context, get);
  v1::GetChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  std::vector<std::byte> small(1);
  EXPECT_EQ(direct_->Fetch(lease, *object, small).code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace baton::kvstore
