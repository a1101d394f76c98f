// Packing, manifests, fetching, restoring and importing, on a fake store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "absl/strings/match.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/unit/worker/handoff_bench.h"
#include "worker/handoff/block_packing.h"
#include "worker/handoff/block_publisher.h"
#include "worker/handoff/handoff_importer.h"
#include "worker/handoff/handoff_manifest.h"
#include "worker/handoff/prefix_restorer.h"

namespace baton::worker {
namespace {

TEST(BlockPacking, ShapeFollowsTheGroup) {
  const kvstore::KvLayout layout = MakeLayout();
  const auto shape = BlockShape::Of(layout.groups[0], kBlockTokens);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->strips, 12u);
  EXPECT_EQ(shape->row_bytes, 4u);
  kvstore::KvGroup odd = layout.groups[0];
  odd.block_bytes += 1;
  EXPECT_TRUE(
      absl::IsInvalidArgument(BlockShape::Of(odd, kBlockTokens).status()));
}

TEST(BlockPacking, KeepsTheFirstRowsOfEachStripAndNothingElse) {
  const BlockShape shape{.strips = 2, .block_tokens = 4, .row_bytes = 2};
  const std::vector<std::byte> block = Bytes(16);
  const auto packed = PackRows(shape, block, 3);
  ASSERT_TRUE(packed.ok());
  std::vector<std::byte> expected(block.begin(), block.begin() + 6);
  expected.insert(expected.end(), block.begin() + 8, block.begin() + 14);
  EXPECT_EQ(*packed, expected);

  std::vector<std::byte> target(16, std::byte{0xEE});
  ASSERT_TRUE(UnpackRows(shape, *packed, 3, target).ok());
  std::vector<std::byte> wanted = block;
  wanted[6] = wanted[7] = wanted[14] = wanted[15] = std::byte{0xEE};
  EXPECT_EQ(target, wanted);
}

TEST(BlockPacking, RefusesSizesThatDoNotFit) {
  const BlockShape shape{.strips = 2, .block_tokens = 4, .row_bytes = 2};
  std::vector<std::byte> block = Bytes(16);
  EXPECT_FALSE(PackRows(shape, block, 0).ok());
  EXPECT_FALSE(PackRows(shape, block, 5).ok());
  EXPECT_FALSE(PackRows(shape, Bytes(15), 2).ok());
  const std::vector<std::byte> before = block;
  EXPECT_FALSE(UnpackRows(shape, Bytes(11), 3, block).ok());
  EXPECT_EQ(block, before);
}

using PrefixRestorerTest = HandoffTest;
using BlockPublisherTest = HandoffTest;
using HandoffImporterTest = HandoffTest;

TEST_F(PrefixRestorerTest, TakesLocalBlocksFirstAndTheRestFromTheStore) {
  const std::vector<TokenId> tokens = Tokens(18);
  Fill(tokens);
  {
    std::vector<BlockRef> local = FilledBlocks(1);
    pool_->Index(Keys(tokens)[0], local[0]);
  }
  RestoredPrefix prefix =
      restorer_->Restore({HandoffId("a"), tokens, root_, true}, {});
  EXPECT_EQ(prefix.local_tokens, 4u);
  EXPECT_EQ(prefix.store_tokens, 12u);
  EXPECT_EQ(prefix.tokens, 16u);
  EXPECT_EQ(store_.counts().fetches, 3);
  ExpectContents(prefix.blocks);
  EXPECT_EQ(pool_->CountMatch(Keys(tokens)), 4u);
  prefix.lease.reset();
  EXPECT_TRUE(NoLeases());
}

TEST_F(PrefixRestorerTest, LeavesOneTokenToCompute) {
  const std::vector<TokenId> tokens = Tokens(16);
  Fill(tokens);
  const RestoredPrefix prefix =
      restorer_->Restore({HandoffId("a"), tokens, root_, true}, {});
  EXPECT_EQ(prefix.tokens, 12u);
  // The publisher need not send the fourth block again.
  EXPECT_EQ(prefix.present.size(), 4u);
}

TEST_F(PrefixRestorerTest, DoesNotAskTheStoreForWhatThePoolHas) {
  const std::vector<TokenId> tokens = Tokens(5);
  std::vector<BlockRef> local = FilledBlocks(1);
  pool_->Index(Keys(tokens)[0], local[0]);
  restorer_->Restore({HandoffId("a"), tokens, root_}, {});
  EXPECT_EQ(store_.counts().lookups, 0);
}

TEST_F(PrefixRestorerTest, DamagedBlockEndsThePrefixAndIsNotIndexed) {
  const std::vector<TokenId> tokens = Tokens(18);
  Fill(tokens);
  ASSERT_TRUE(store_.FlipByte(Keys(tokens)[2]));
  const RestoredPrefix prefix =
      restorer_->Restore({HandoffId("a"), tokens, root_, true}, {});
  EXPECT_EQ(prefix.tokens, 8u);
  EXPECT_EQ(prefix.corrupt_blocks, 1u);
  EXPECT_EQ(prefix.present.size(), 2u);
  ExpectContents(prefix.blocks);
  EXPECT_EQ(pool_->CountMatch(Keys(tokens)), 2u);
  EXPECT_EQ(Count("baton_prefix_restore_failures_total{model_name=\"m\","
                  "reason=\"crc\"}"),
            1);
}

TEST_F(PrefixRestorerTest, GoesOnWithoutStoreAndWithoutRoom) {
  const std::vector<TokenId> tokens = Tokens(18);
  Fill(tokens);
  store_.SetAway(true);
  EXPECT_EQ(
      restorer_->Restore({HandoffId("a"), tokens, root_, true}, {}).tokens, 0u);
  store_.SetAway(false);
  const auto all = *pool_->TryAllocate(8);
  const RestoredPrefix prefix =
      restorer_->Restore({HandoffId("a"), tokens, root_, true}, {});
  EXPECT_EQ(prefix.tokens, 0u);
  EXPECT_NE(prefix.lease, nullptr);
}

TEST_F(PrefixRestorerTest, StopEndsFetching) {
  const std::vector<TokenId> tokens = Tokens(18);
  Fill(tokens);
  std::stop_source stop;
  stop.request_stop();
  const RestoredPrefix prefix = restorer_->Restore(
      {HandoffId("a"), tokens, root_, true}, stop.get_token());
  EXPECT_EQ(prefix.tokens, 0u);
  EXPECT_EQ(store_.counts().fetches, 0);
}

TEST_F(BlockPublisherTest, PublishesInOrderAndTheTailAsEphemeral) {
  const std::vector<TokenId> tokens = Tokens(10);
  const HandoffManifest manifest = Manifest(tokens, 99);
  ASSERT_EQ(manifest.blocks.size(), 3u);
  EXPECT_EQ(manifest.blocks[1].object.key, Keys(tokens)[1]);
  EXPECT_EQ(manifest.blocks[2].tokens, 2u);
  EXPECT_EQ(manifest.blocks[2].object.payload_bytes, 12u * 4 * 2);
  EXPECT_EQ(store_.ephemeral_objects(), 1u);
  EXPECT_TRUE(store_.Release(manifest.lease).ok());
  EXPECT_EQ(store_.ephemeral_objects(), 0u);
  EXPECT_EQ(store_.objects(), 2u);
}

TEST_F(BlockPublisherTest, SendsNoBlockTwice) {
  const auto keys = Keys(Tokens(8));
  std::vector<BlockRef> blocks = FilledBlocks(2);
  auto publisher = Publisher();
  for (int round = 0; round < 3; ++round) {
    publisher->Add(0, keys[0], blocks[0]);
    publisher->Add(1, keys[1], blocks[1]);
  }
  EXPECT_EQ(AwaitPublished(publisher, 2, std::nullopt).blocks.size(), 2u);
  EXPECT_EQ(store_.counts().publishes, 2);
  EXPECT_TRUE(NoLeases());
}

TEST_F(BlockPublisherTest, ManifestEndsBeforeTheFirstGap) {
  const auto keys = Keys(Tokens(12));
  std::vector<BlockRef> blocks = FilledBlocks(3);
  auto publisher = Publisher();
  publisher->Add(0, keys[0], blocks[0]);
  publisher->Add(2, keys[2], blocks[2]);
  BlockPublisher::Tail tail{keys[1], blocks[1], 2};
  const PublishedPrefix published = AwaitPublished(publisher, 3, tail);
  EXPECT_EQ(published.blocks.size(), 1u);
  EXPECT_EQ(store_.ephemeral_objects(), 0u);
}

TEST_F(BlockPublisherTest, FirstFailureEndsPublishing) {
  store_.FailPublishes(absl::ResourceExhaustedError("full"));
  const auto keys = Keys(Tokens(12));
  std::vector<BlockRef> blocks = FilledBlocks(3);
  auto publisher = Publisher();
  for (uint32_t i = 0; i < 3; ++i) publisher->Add(i, keys[i], blocks[i]);
  EXPECT_TRUE(AwaitPublished(publisher, 3, std::nullopt).blocks.empty());
  EXPECT_EQ(store_.counts().publishes, 1);
  EXPECT_EQ(Count("baton_kv_publish_failures_total{model_name=\"m\",reason="
                  "\"no_room\"}"),
            1);
}

TEST_F(BlockPublisherTest, FullQueueDropsInsteadOfWaiting) {
  store_.Close();
  const auto keys = Keys(Tokens(20));
  std::vector<BlockRef> blocks = FilledBlocks(5);
  auto publisher = Publisher(/*max_queued=*/2);
  publisher->Add(0, keys[0], blocks[0]);
  store_.AwaitWaiting(1);
  for (uint32_t i = 1; i < 5; ++i) publisher->Add(i, keys[i], blocks[i]);
  EXPECT_EQ(Count("baton_kv_publish_failures_total{model_name=\"m\",reason="
                  "\"queue_full\"}"),
            1);
  store_.Open();
  EXPECT_EQ(AwaitPublished(publisher, 5, std::nullopt).blocks.size(), 1u);
}

TEST_F(BlockPublisherTest, StopDropsTheQueueAndItsHandles) {
  store_.Close();
  const auto keys = Keys(Tokens(12));
  auto publisher = Publisher();
  {
    std::vector<BlockRef> blocks = FilledBlocks(3);
    for (uint32_t i = 0; i < 3; ++i) publisher->Add(i, keys[i], blocks[i]);
  }
  store_.AwaitWaiting(1);
  publisher->Stop();
  EXPECT_EQ(pool_->Stats().held, 1u);  // the one in flight
  publisher.reset();
  store_.Open();
  EXPECT_TRUE(NoLeases());
  EXPECT_EQ(store_.objects(), 1u);
}

TEST_F(HandoffImporterTest, BringsFullBlocksAndTail) {
  std::vector<TokenId> tokens = Tokens(10);
  const HandoffManifest manifest = Manifest(tokens, 99);
  tokens.push_back(99);
  auto prefix = importer_->Import(manifest, tokens, root_, {});
  ASSERT_TRUE(prefix.ok()) << prefix.status();
  EXPECT_EQ(prefix->tokens, 10u);
  EXPECT_EQ(prefix->store_tokens, 10u);
  ASSERT_EQ(prefix->blocks.size(), 3u);
  ExpectContents({prefix->blocks[0], prefix->blocks[1]});
  // Two rows of each strip; the tail is nobody else's.
  const auto tail = prefix->blocks[2].bytes();
  for (int strip = 0; strip < 12; ++strip) {
    EXPECT_EQ(std::memcmp(tail.data() + strip * 16,
                          ContentOf(2).data() + strip * 16, 8),
              0);
  }
  EXPECT_EQ(pool_->CountMatch(Keys(tokens)), 2u);
  EXPECT_TRUE(NoLeases());
}

TEST_F(HandoffImporterTest, SkipsWhatThePoolHas) {
  std::vector<TokenId> tokens = Tokens(10);
  const HandoffManifest manifest = Manifest(tokens, 99);
  tokens.push_back(99);
  std::vector<BlockRef> local = FilledBlocks(1);
  pool_->Index(manifest.blocks[0].object.key, local[0]);
  auto prefix = importer_->Import(manifest, tokens, root_, {});
  ASSERT_TRUE(prefix.ok());
  EXPECT_EQ(prefix->local_tokens, 4u);
  EXPECT_EQ(prefix->store_tokens, 6u);
  EXPECT_EQ(store_.counts().fetches, 2);
}

TEST_F(HandoffImporterTest, DamagedTailIsNeverWrittenIntoABlock) {
  std::vector<TokenId> tokens = Tokens(10);
  const HandoffManifest manifest = Manifest(tokens, 99);
  tokens.push_back(99);
  ASSERT_TRUE(store_.FlipByte(manifest.blocks[2].object.key));
  auto prefix = importer_->Import(manifest, tokens, root_, {});
  ASSERT_TRUE(prefix.ok());
  EXPECT_EQ(prefix->tokens, 8u);
  EXPECT_EQ(prefix->blocks.size(), 2u);
  EXPECT_EQ(prefix->corrupt_blocks, 1u);
  EXPECT_EQ(
      Count("baton_handoff_fallbacks_total{model_name=\"m\",reason=\"crc\"}"),
      1);
  EXPECT_TRUE(NoLeases());
}

TEST_F(HandoffImporterTest, NoRoomImportsNothingAndSaysSo) {
  std::vector<TokenId> tokens = Tokens(10);
  const HandoffManifest manifest = Manifest(tokens, 99);
  tokens.push_back(99);
  const auto all = *pool_->TryAllocate(8);
  auto prefix = importer_->Import(manifest, tokens, root_, {});
  ASSERT_TRUE(prefix.ok());
  EXPECT_EQ(prefix->tokens, 0u);
  EXPECT_EQ(Count("baton_handoff_fallbacks_total{model_name=\"m\",reason=\"no_"
                  "room\"}"),
            1);
  EXPECT_TRUE(NoLeases());
}

TEST_F(HandoffImporterTest, RefusesAnotherLayoutAndGivesTheLeaseBack) {
  std::vector<TokenId> tokens = Tokens(10);
  HandoffManifest manifest = Manifest(tokens, 99);
  tokens.push_back(99);
  manifest.layout.groups[0].dtype = "q8_0";
  const auto refused = importer_->Import(manifest, tokens, root_, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_EQ(store_.counts().fetches, 0);
  EXPECT_TRUE(NoLeases());
}

TEST_F(HandoffImporterTest, PositionContractIsCheckedInEveryPart) {
  std::vector<TokenId> tokens = Tokens(10);
  const HandoffManifest good = Manifest(tokens, 99);
  tokens.push_back(99);
  const auto check = [&](const HandoffManifest& manifest) {
    return CheckPositionContract(manifest, tokens, root_, layout_.groups[0],
                                 kBlockTokens);
  };
  EXPECT_TRUE(check(good).ok());
  const auto refused =
      [&](const std::function<void(HandoffManifest*)>& change) {
        HandoffManifest manifest = good;
        change(&manifest);
        const absl::Status status = check(manifest);
        return absl::IsFailedPrecondition(status) &&
               absl::StartsWith(status.message(), "position contract");
      };
  EXPECT_TRUE(refused([](auto* m) { ++m->position.committed_tokens; }));
  EXPECT_TRUE(refused([](auto* m) { --m->position.kv_tokens; }));
  EXPECT_TRUE(refused([](auto* m) { m->position.kv_tokens += 1; }));
  EXPECT_TRUE(refused([](auto* m) { m->position.pending_token = 98; }));
  EXPECT_TRUE(refused([](auto* m) { --m->position.pending_position; }));
  EXPECT_TRUE(refused([](auto* m) { ++m->position.random_counter; }));
  EXPECT_TRUE(refused([](auto* m) { m->blocks[0].tokens = 3; }));
  EXPECT_TRUE(refused([](auto* m) { m->blocks[2].tokens = 3; }));
  EXPECT_TRUE(refused([](auto* m) { m->blocks[2].tokens = 0; }));
  EXPECT_TRUE(refused([](auto* m) { --m->blocks[1].object.payload_bytes; }));
  EXPECT_TRUE(refused([](auto* m) { m->blocks.pop_back(); }));
  EXPECT_TRUE(refused([](auto* m) { std::swap(m->blocks[0], m->blocks[1]); }));
  EXPECT_TRUE(refused(
      [](auto* m) { m->blocks[2].object.key = m->blocks[1].object.key; }));
}

}  // namespace
}  // namespace baton::worker
