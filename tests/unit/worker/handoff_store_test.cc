// The circuit breaker, the lease book, the gate and the codec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/base/error_details.h"
#include "services/base/executor.h"
#include "tests/support/fake_kvstore.h"
#include "tests/support/manual_clock.h"
#include "worker/handoff/admission_gate.h"
#include "worker/handoff/guarded_store.h"
#include "worker/handoff/handoff_codec.h"
#include "worker/handoff/lease_book.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {
namespace {

TEST(GuardedStore, AsksADeadStoreOnceInAWhile) {
  kvstore::FakeKvStore store;
  ManualClock clock;
  GuardedStore guarded(&store, &clock, absl::Seconds(1));
  store.SetAway(true);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(
        absl::IsUnavailable(guarded.Lookup(HandoffId("a"), {}, {}).status()));
  }
  EXPECT_EQ(store.counts().refused, 1);
  clock.Advance(absl::Seconds(1));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(guarded.Renew({}, {})));
  }
  EXPECT_EQ(store.counts().refused, 2);
  store.SetAway(false);
  EXPECT_FALSE(guarded.Lookup(HandoffId("a"), {}, {}).ok());
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(guarded.Lookup(HandoffId("a"), {}, {}).ok());
  EXPECT_TRUE(guarded.Lookup(HandoffId("a"), {}, {}).ok());
}

TEST(GuardedStore, OtherErrorsAreAnAnswer) {
  kvstore::FakeKvStore store;
  ManualClock clock;
  GuardedStore guarded(&store, &clock);
  const kvstore::Lease unknown{LeaseId(99), Epoch(7)};
  EXPECT_TRUE(absl::IsAborted(guarded.Renew(unknown, {})));
  EXPECT_TRUE(absl::IsAborted(guarded.Renew(unknown, {})));
  EXPECT_EQ(store.counts().renewals, 2);
}

class LeaseBookTest : public ::testing::Test {
 protected:
  std::unique_ptr<HeldLease> Hold() {
    return book_.Hold(store_.Lookup(HandoffId("a"), {}, {})->lease);
  }
  template <typename Condition>
  static bool Eventually(Condition holds) {
    Mutex mutex;
    CondVar never;
    for (int i = 0; i < 5000 && !holds(); ++i) {
      MutexLock lock(&mutex);
      never.WaitWithTimeout(&mutex, absl::Milliseconds(1));
    }
    return holds();
  }

  kvstore::FakeKvStore store_;
  ThreadPoolExecutor executor_{ThreadPoolExecutor::Options{1}};
  LeaseBook book_{{absl::Milliseconds(30)}, &store_, &executor_};
};

TEST_F(LeaseBookTest, RenewsWhileHeldAndReleasesAtTheEnd) {
  {
    auto lease = Hold();
    EXPECT_EQ(book_.held(), 1u);
    EXPECT_TRUE(Eventually([&] { return store_.counts().renewals >= 3; }));
    EXPECT_FALSE(lease->lost());
    EXPECT_EQ(store_.leases(), 1u);
  }
  EXPECT_TRUE(Eventually([&] { return book_.held() == 0; }));
  EXPECT_EQ(store_.leases(), 0u);
  EXPECT_EQ(store_.counts().releases, 1);
}

TEST_F(LeaseBookTest, HandedOverLeaseStaysAndIsNoLongerCounted) {
  auto lease = Hold();
  lease->HandOver();
  EXPECT_EQ(book_.held(), 0u);
  lease.reset();
  executor_.Stop();
  EXPECT_EQ(store_.leases(), 1u);
  EXPECT_EQ(store_.counts().releases, 0);
}

TEST_F(LeaseBookTest, NoticesThatTheStoreForgotIt) {
  auto lease = Hold();
  store_.Restart();
  EXPECT_TRUE(Eventually([&] { return lease->lost(); }));
}

TEST_F(LeaseBookTest, KeepsTryingWhileTheStoreIsAway) {
  auto lease = Hold();
  store_.SetAway(true);
  EXPECT_TRUE(Eventually([&] { return store_.counts().refused >= 2; }));
  store_.SetAway(false);
  const int before = store_.counts().renewals;
  EXPECT_TRUE(
      Eventually([&] { return store_.counts().renewals > before + 1; }));
  EXPECT_FALSE(lease->lost());
}

TEST(AdmissionGate, OpensAndDrains) {
  AdmissionGate gate;
  EXPECT_EQ(ErrorReason(gate.Enter().status()), "model_loading");
  WorkerContext context;
  gate.Open(&context);
  {
    auto pass = gate.Enter();
    ASSERT_TRUE(pass.ok());
    EXPECT_EQ(&pass->context(), &context);
    AdmissionGate::Pass moved = *std::move(pass);
    EXPECT_EQ(gate.inside(), 1u);
    gate.Drain();
    EXPECT_EQ(ErrorReason(gate.Enter().status()), "draining");
    EXPECT_FALSE(gate.AwaitIdle(absl::Milliseconds(1)));
  }
  EXPECT_TRUE(gate.AwaitIdle(absl::ZeroDuration()));
}

HandoffManifest MakeManifest() {
  HandoffManifest manifest;
  manifest.handoff = HandoffId("handoff-9");
  manifest.sender_epoch = Epoch(5);
  manifest.layout.model_digest = kvstore::Sha256("m");
  manifest.layout.architecture = "llama";
  manifest.layout.parameters = "rope 10000";
  manifest.layout.numerics_mode = "strict";
  manifest.layout.numerics_id = "id";
  manifest.layout.groups = {{"attn", "full_suffix", "f16", 2, 3, 4, 6144}};
  manifest.kvstore_address = "127.0.0.1:9400";
  manifest.lease = {LeaseId(3), Epoch(4)};
  manifest.position = {66, 65, 17, 65, 66};
  manifest.blocks = {
      {{kvstore::Sha256("a"), Generation(8), 6144, 0xdeadbeef}, 64},
      {{kvstore::Sha256("b"), Generation(9), 96, 1}, 1}};
  return manifest;
}

TEST(HandoffCodec, ManifestSurvivesTheWire) {
  const HandoffManifest manifest = MakeManifest();
  v1::HandoffManifest message;
  EncodeManifest(manifest, &message);
  const auto decoded = DecodeManifest(message, 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->handoff, manifest.handoff);
  EXPECT_EQ(decoded->sender_epoch, manifest.sender_epoch);
  EXPECT_EQ(decoded->layout.Fingerprint(), manifest.layout.Fingerprint());
  EXPECT_TRUE(kvstore::CheckCompatible(decoded->layout, manifest.layout).ok());
  EXPECT_EQ(decoded->kvstore_address, manifest.kvstore_address);
  EXPECT_EQ(decoded->lease.id, manifest.lease.id);
  EXPECT_EQ(decoded->lease.epoch, manifest.lease.epoch);
  EXPECT_EQ(decoded->position.committed_tokens, 66u);
  EXPECT_EQ(decoded->position.kv_tokens, 65u);
  EXPECT_EQ(decoded->position.pending_token, 17);
  EXPECT_EQ(decoded->position.pending_position, 65u);
  EXPECT_EQ(decoded->position.random_counter, 66u);
  ASSERT_EQ(decoded->blocks.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(decoded->blocks[i].tokens, manifest.blocks[i].tokens);
    EXPECT_EQ(decoded->blocks[i].object.key, manifest.blocks[i].object.key);
    EXPECT_EQ(decoded->blocks[i].object.generation,
              manifest.blocks[i].object.generation);
    EXPECT_EQ(decoded->blocks[i].object.payload_bytes,
              manifest.blocks[i].object.payload_bytes);
    EXPECT_EQ(decoded->blocks[i].object.crc32c,
              manifest.blocks[i].object.crc32c);
  }
}

TEST(HandoffCodec, RefusesMalformedManifests) {
  v1::HandoffManifest good;
  EncodeManifest(MakeManifest(), &good);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeManifest(good, 1).status()));
  v1::HandoffManifest message = good;
  message.mutable_blocks(0)->set_key("short");
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeManifest(message, 9).status()));
  message = good;
  message.mutable_layout()->set_model_digest("short");
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeManifest(message, 9).status()));
  message = good;
  message.mutable_layout()->set_numerics_id("other");
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeManifest(message, 9).status()));
  message = good;
  message.mutable_layout()->set_layout_version(99);
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeManifest(message, 9).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      DecodeManifest(v1::HandoffManifest(), 9).status()));
}

}  // namespace
}  // namespace baton::worker
