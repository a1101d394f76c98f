#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kvstore/block/kv_layout.h"

namespace baton::kvstore {
namespace {

KvLayout Layout() {
  KvLayout layout;
  layout.model_digest = Sha256("model");
  layout.architecture = "llama";
  layout.parameters = "rope=10000";
  layout.numerics_mode = "strict";
  layout.numerics_id = "k1";
  layout.groups = {{"attn", "full_suffix", "f16", 2, 3, 64, 98304}};
  return layout;
}

const std::vector<std::function<void(KvLayout*)>>& Changes() {
  static const auto* const kChanges =
      new std::vector<std::function<void(KvLayout*)>>{
          [](KvLayout* l) { l->model_digest = Sha256("other"); },
          [](KvLayout* l) { l->architecture = "qwen3"; },
          [](KvLayout* l) { l->parameters = "rope=10001"; },
          [](KvLayout* l) { l->numerics_mode = "fast"; },
          [](KvLayout* l) { l->numerics_id = "k2"; },
          [](KvLayout* l) { l->block_tokens = 32; },
          [](KvLayout* l) { l->groups[0].name = "state"; },
          [](KvLayout* l) { l->groups[0].dtype = "f32"; },
          [](KvLayout* l) { l->groups[0].layers = 3; },
          [](KvLayout* l) { l->groups[0].kv_heads = 2; },
          [](KvLayout* l) { l->groups[0].head_dim = 128; },
          [](KvLayout* l) { l->groups[0].block_bytes += 2; },
          [](KvLayout* l) { l->groups.clear(); },
      };
  return *kChanges;
}

TEST(KvLayoutTest, EveryFieldChangesTheFingerprint) {
  std::set<Digest> seen = {Layout().Fingerprint()};
  for (const auto& change : Changes()) {
    KvLayout layout = Layout();
    change(&layout);
    EXPECT_TRUE(seen.insert(layout.Fingerprint()).second) << seen.size();
  }
}

TEST(KvLayoutTest, EveryDifferenceOfTheTargetIsFatalBothWays) {
  EXPECT_TRUE(CheckCompatible(Layout(), Layout()).ok());
  for (const auto& change : Changes()) {
    KvLayout layout = Layout();
    change(&layout);
    EXPECT_EQ(CheckCompatible(Layout(), layout).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(CheckCompatible(layout, Layout()).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(KvLayoutTest, DraftGroupsMayDifferAndHaveAFingerprintOfTheirOwn) {
  KvLayout drafting = Layout();
  drafting.groups.push_back({"mtp", "full_suffix", "f16", 1, 3, 64, 49152});
  drafting.groups.push_back(
      {"tail", "latest_snapshot", "f32", 0, 0, 576, 2304});
  EXPECT_TRUE(CheckCompatible(Layout(), drafting).ok());
  EXPECT_TRUE(CheckCompatible(drafting, Layout()).ok());
  EXPECT_EQ(drafting.Fingerprint(), Layout().Fingerprint());
  EXPECT_NE(drafting.DraftFingerprint(), Layout().DraftFingerprint());
  EXPECT_EQ(drafting.TargetBytes(), Layout().TargetBytes());
  EXPECT_EQ(drafting.DraftBytes(), 49152u + 2304u);
  EXPECT_EQ(Layout().DraftBytes(), 0u);
  KvLayout other = drafting;
  other.groups[1].dtype = "f32";
  EXPECT_TRUE(CheckCompatible(drafting, other).ok());
  EXPECT_NE(drafting.DraftFingerprint(), other.DraftFingerprint());
  other = drafting;
  other.draft_digest = Sha256("another head");
  EXPECT_TRUE(CheckCompatible(drafting, other).ok());
  EXPECT_EQ(drafting.Fingerprint(), other.Fingerprint());
  EXPECT_NE(drafting.DraftFingerprint(), other.DraftFingerprint());
}

TEST(KvLayoutTest, DraftKeysDependOnTheBlockAndTheHead) {
  const BlockKey a = Sha256("a"), b = Sha256("b");
  const Digest head = Sha256("head"), other = Sha256("other");
  EXPECT_EQ(DraftKey(head, a), DraftKey(head, a));
  EXPECT_NE(DraftKey(head, a), DraftKey(head, b));
  EXPECT_NE(DraftKey(head, a), DraftKey(other, a));
  EXPECT_NE(DraftKey(head, a), a);
}

TEST(KvLayoutTest, APartialBlockHasItsShareOfTheBytes) {
  const KvGroup group = Layout().groups[0];
  EXPECT_EQ(KvLayout::PayloadBytes(group, 64, 64), 98304u);
  EXPECT_EQ(KvLayout::PayloadBytes(group, 64, 1), 1536u);
}

}  // namespace
}  // namespace baton::kvstore
