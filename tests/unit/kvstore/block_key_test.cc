#include "kvstore/block/block_key.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace baton::kvstore {
namespace {

Digest Fingerprint() {
  Digest digest;
  for (int i = 0; i < 32; ++i) digest.bytes[i] = static_cast<uint8_t>(i);
  return digest;
}

// The constants come from a separate Python program over hashlib. A change
// here loses every stored block of every user.
TEST(BlockKeyTest, KeepsItsGoldenChain) {
  const BlockKey root = RootKey(Fingerprint(), "");
  EXPECT_EQ(root.Hex(),
            "f3feb24ee9ee5f4ccbf357cfd6135924f6bb7ebea796c512d484467dedd8b6ab");
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 70000, 0, 151643, 5, 9};
  const std::vector<BlockKey> keys = BlockKeys(root, tokens, 4);
  ASSERT_EQ(keys.size(), 2u);  // the ninth token fills no block
  EXPECT_EQ(keys[0].Hex(),
            "eb38f175d1edcbaee967db6f248d78818e6649de9939ce1bf79ca823136054a8");
  EXPECT_EQ(keys[1].Hex(),
            "3d713382c31321edb6f863d44cf2059d28017fc529e789ba6bde2d33542a10f8");
  EXPECT_EQ(RootKey(Fingerprint(), "tenant-a").Hex(),
            "da57fd265193b7a98c149995a79e32de775b24fd37c9cffaaeebbb56f2804158");
  const std::vector<TokenId> partial = {9};
  EXPECT_EQ(NextKey(keys[1], partial).Hex(),
            "da70f14e7231028c616ab5df6f3afd328a5e5c0e616f4d796f0edb42ac55e1c0");
}

TEST(BlockKeyTest, SaltsAndLayoutsHaveDisjointKeys) {
  Digest other = Fingerprint();
  other.bytes[31] ^= 1;
  std::set<BlockKey> seen;
  const std::vector<TokenId> tokens(64, 7);
  size_t made = 0;
  for (const Digest& fingerprint : {Fingerprint(), other}) {
    for (const char* salt : {"", "a", "b", "ab"}) {
      for (const BlockKey& key :
           BlockKeys(RootKey(fingerprint, salt), tokens, 8)) {
        seen.insert(key);
        ++made;
      }
    }
  }
  EXPECT_EQ(made, 64u);
  EXPECT_EQ(seen.size(), made);
}

TEST(BlockKeyTest, FramesTheTokenCountAndEveryToken) {
  const BlockKey root = RootKey(Fingerprint(), "");
  const std::vector<std::vector<TokenId>> blocks = {
      {1}, {1, 0}, {1, 0, 0}, {0, 1}, {256}, {1, 2}, {2, 1}, {12}, {513}};
  std::set<BlockKey> seen;
  for (const auto& block : blocks) seen.insert(NextKey(root, block));
  EXPECT_EQ(seen.size(), blocks.size());
}

TEST(BlockKeyTest, AKeyNamesAllTokensBeforeIt) {
  const BlockKey root = RootKey(Fingerprint(), "");
  std::vector<TokenId> tokens(32, 3);
  const std::vector<BlockKey> before = BlockKeys(root, tokens, 8);
  tokens[9] = 4;  // in the second block
  const std::vector<BlockKey> after = BlockKeys(root, tokens, 8);
  EXPECT_EQ(before[0], after[0]);
  for (int i = 1; i < 4; ++i) EXPECT_NE(before[i], after[i]) << i;
}

TEST(BlockKeyTest, RawFormRoundTripsAndRefusesOtherSizes) {
  const Digest digest = Sha256("abc");
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(digest.Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest::FromRaw(digest.Raw()).value(), digest);
  EXPECT_FALSE(Digest::FromRaw("").ok());
  EXPECT_FALSE(Digest::FromRaw(digest.Raw() + "x").ok());
  EXPECT_FALSE(Digest::FromRaw(digest.Raw().substr(1)).ok());
}

TEST(BlockKeyTest, ReusableTokensLeavesOneToCompute) {
  struct Case {
    uint32_t prompt, reusable;
  };
  for (const Case& c : std::vector<Case>{{0, 0},
                                         {1, 0},
                                         {63, 0},
                                         {64, 0},
                                         {65, 64},
                                         {127, 64},
                                         {128, 64},
                                         {129, 128},
                                         {4294967295u, 4294967232u}}) {
    EXPECT_EQ(ReusableTokens(c.prompt, 64), c.reusable) << c.prompt;
  }
}

}  // namespace
}  // namespace baton::kvstore
