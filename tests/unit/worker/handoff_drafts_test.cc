// Draft rows on their way: published, handed over and restored beside the
// target's, and never in their way.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/worker/handoff_bench.h"
#include "worker/handoff/handoff_codec.h"

namespace baton::worker {
namespace {

// One layer of one head of 2 elements of 2 bytes, and a row of 3 floats.
kvstore::KvLayout DraftingLayout() {
  kvstore::KvLayout layout = MakeLayout();
  layout.groups.push_back(
      {"mtp", "full_suffix", "f16", 1, 1, 2, 2 * kBlockTokens * 4});
  layout.groups.push_back({"tail", "latest_snapshot", "f32", 0, 0, 3, 12});
  layout.draft_digest = kvstore::Sha256("head");
  return layout;
}

class HandoffDraftsTest : public HandoffTest {
 protected:
  HandoffDraftsTest() : HandoffTest(DraftingLayout()) {}

  static constexpr TokenId kFirst = 99;

  // As the gateway passes it on.
  HandoffManifest Sent(const std::vector<TokenId>& tokens) {
    v1::HandoffManifest message;
    EncodeManifest(Manifest(tokens, kFirst), &message);
    return *DecodeManifest(message, 16);
  }
  ImportedPrefix Import(const HandoffManifest& manifest,
                        std::vector<TokenId> tokens) {
    tokens.push_back(kFirst);
    auto prefix = importer_->Import(manifest, tokens, root_, {});
    EXPECT_TRUE(prefix.ok()) << prefix.status();
    return *std::move(prefix);
  }
  kvstore::BlockKey DraftKeyOf(const HandoffManifest& manifest, size_t block) {
    return kvstore::DraftKey(layout_.DraftFingerprint(),
                             manifest.blocks[block].object.key);
  }
  static std::vector<bool> Primed(const std::vector<BlockRef>& blocks) {
    std::vector<bool> primed;
    for (const BlockRef& block : blocks) primed.push_back(block.primed());
    return primed;
  }
  void ExpectDraftRows(const BlockRef& block, size_t index, uint32_t tokens) {
    std::vector<std::byte> rows = Bytes(layout_.DraftBytes());
    rows[0] = std::byte(index);
    const size_t strip = kBlockTokens * 4;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(
          std::ranges::equal(block.draft_bytes().subspan(i * strip, tokens * 4),
                             std::span(rows).subspan(i * strip, tokens * 4)))
          << index;
    }
    EXPECT_TRUE(std::ranges::equal(block.draft_bytes().last(12),
                                   std::span(rows).last(12)))
        << index;
  }
  double Losses(const std::string& cause) {
    return Count("baton_draft_state_losses_total{model_name=\"m\",reason=\"" +
                 cause + "\"}");
  }
  // Every way to lose draft rows leaves the target's as they were.
  void ExpectWhole(const ImportedPrefix& prefix, uint32_t tokens) {
    EXPECT_EQ(prefix.tokens, tokens);
    EXPECT_EQ(prefix.corrupt_blocks, 0u);
    ExpectContents(
        {prefix.blocks.begin(), prefix.blocks.begin() + tokens / kBlockTokens});
  }

  const std::vector<TokenId> tokens_ = Tokens(10);
};

TEST_F(HandoffDraftsTest, TravelWithTheBlocksAndThePartialOne) {
  const HandoffManifest manifest = Sent(tokens_);
  ASSERT_EQ(manifest.blocks.size(), 3u);
  EXPECT_EQ(manifest.blocks[0].draft->payload_bytes, layout_.DraftBytes());
  EXPECT_EQ(manifest.blocks[2].draft->payload_bytes, 2u * 2 * 4 + 12);
  EXPECT_EQ(store_.objects(), 6u);
  EXPECT_EQ(store_.ephemeral_objects(), 2u);
  const ImportedPrefix prefix = Import(manifest, tokens_);
  ExpectWhole(prefix, 10);
  EXPECT_EQ(Primed(prefix.blocks), std::vector<bool>({true, true, true}));
  for (size_t i = 0; i < 3; ++i) {
    ExpectDraftRows(prefix.blocks[i], i, i < 2 ? 4 : 2);
  }
  EXPECT_TRUE(NoLeases());
  EXPECT_EQ(store_.ephemeral_objects(), 0u);
}

TEST_F(HandoffDraftsTest, ComeBackFromTheStore) {
  EXPECT_TRUE(store_.Release(Sent(tokens_).lease).ok());
  pool_->DropCached();
  RestoredPrefix prefix =
      restorer_->Restore({HandoffId("a"), tokens_, root_, true}, {});
  EXPECT_EQ(prefix.tokens, 8u);
  EXPECT_EQ(Primed(prefix.blocks), std::vector<bool>({true, true}));
  ExpectDraftRows(prefix.blocks[1], 1, 4);
  EXPECT_EQ(prefix.store_bytes,
            2 * (layout_.TargetBytes() + layout_.DraftBytes()));
  // What is present is not sent again, and names its draft rows too.
  const int before = store_.counts().existing;
  BlockPublisher::Options options;
  options.shape = *BlockShape::Of(layout_.groups[0], kBlockTokens);
  options.drafts = *DraftShape::Of(layout_);
  auto publisher = BlockPublisher::Create(
      options, &store_, leases_.get(), &executor_, metrics_.get(),
      std::move(prefix.lease), std::move(prefix.present));
  const auto keys = Keys(tokens_);
  for (uint32_t i = 0; i < 2; ++i) {
    publisher->Add(i, keys[i], prefix.blocks[i]);
  }
  PublishedPrefix published = AwaitPublished(publisher, 2, std::nullopt);
  ASSERT_EQ(published.blocks.size(), 2u);
  EXPECT_TRUE(published.blocks[1].draft.has_value());
  EXPECT_EQ(store_.counts().existing, before + 2);
  published.lease.reset();
  EXPECT_TRUE(NoLeases());
}

TEST_F(HandoffDraftsTest, AMissingOneEndsThePrimedRun) {
  const HandoffManifest manifest = Sent(tokens_);
  ASSERT_TRUE(store_.Drop(DraftKeyOf(manifest, 1)));
  const ImportedPrefix prefix = Import(manifest, tokens_);
  ExpectWhole(prefix, 10);
  EXPECT_EQ(Primed(prefix.blocks), std::vector<bool>({true, false, false}));
  EXPECT_EQ(Losses("missing"), 1);
}

TEST_F(HandoffDraftsTest, ADamagedOneIsNotUsed) {
  const HandoffManifest manifest = Sent(tokens_);
  ASSERT_TRUE(store_.FlipByte(DraftKeyOf(manifest, 0)));
  const ImportedPrefix prefix = Import(manifest, tokens_);
  ExpectWhole(prefix, 10);
  EXPECT_EQ(Primed(prefix.blocks), std::vector<bool>({false, false, false}));
  EXPECT_EQ(Losses("crc"), 1);
}

TEST_F(HandoffDraftsTest, ASenderWithoutThemIsServed) {
  unprimed_block = 1;
  HandoffManifest manifest = Sent(tokens_);
  EXPECT_TRUE(manifest.blocks[0].draft.has_value());
  EXPECT_FALSE(manifest.blocks[1].draft.has_value());
  ImportedPrefix prefix = Import(manifest, tokens_);
  ExpectWhole(prefix, 10);
  EXPECT_EQ(Primed(prefix.blocks), std::vector<bool>({true, false, false}));
  EXPECT_EQ(Losses("not_published"), 1);
}

TEST_F(HandoffDraftsTest, AnotherHeadsRowsAreLeftAlone) {
  HandoffManifest manifest = Sent(tokens_);
  manifest.layout.draft_digest = kvstore::Sha256("another head");
  const ImportedPrefix prefix = Import(manifest, tokens_);
  ExpectWhole(prefix, 10);
  EXPECT_EQ(Primed(prefix.blocks), std::vector<bool>({false, false, false}));
  EXPECT_EQ(Losses("other_head"), 1);
}

TEST_F(HandoffDraftsTest, AStoreThatRefusesThemStillTakesTheBlocks) {
  const auto keys = Keys(tokens_);
  std::vector<BlockRef> blocks = FilledBlocks(2);
  auto publisher = Publisher();
  store_.RefuseKey(kvstore::DraftKey(layout_.DraftFingerprint(), keys[0]));
  publisher->Add(0, keys[0], blocks[0]);
  publisher->Add(1, keys[1], blocks[1]);
  const PublishedPrefix published = AwaitPublished(publisher, 2, std::nullopt);
  ASSERT_EQ(published.blocks.size(), 2u);
  EXPECT_FALSE(published.blocks[0].draft.has_value());
  EXPECT_TRUE(published.blocks[1].draft.has_value());
  EXPECT_EQ(Count("baton_kv_publish_failures_total{model_name=\"m\",reason="
                  "\"no_room\"}"),
            1);
}

}  // namespace
}  // namespace baton::worker
