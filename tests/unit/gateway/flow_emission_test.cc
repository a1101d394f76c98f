#include <gtest/gtest.h>

#include "gateway/flow/emission.h"
#include "tests/support/fake_tokenizer.h"

namespace baton::gateway {
namespace {

using testing_support::FakeTokenizer;
using testing_support::kFakeEnd;

class EmissionTest : public ::testing::Test {
 protected:
  EmissionTest() { limits_.max_tokens = 100; }
  // Text of all of `tokens`; stops where the answer does.
  std::string Run(const std::vector<TokenId>& tokens) {
    emission_.emplace(std::make_shared<FakeTokenizer>(), limits_);
    std::string text;
    last_ = {};
    for (TokenId token : tokens) {
      last_ = emission_->Commit(token);
      text += last_.text;
      if (last_.finish.has_value()) return text;
    }
    return text + emission_->Flush();
  }
  Limits limits_;
  std::optional<Emission> emission_;
  Emission::Result last_;
};

TEST_F(EmissionTest, EndTokenIsCountedAndGivesNoText) {
  EXPECT_EQ(Run({'h', 'i', kFakeEnd}), "hi");
  EXPECT_EQ(last_.finish, FinishReason::kStop);
  EXPECT_FALSE(last_.by_stop_string);
  EXPECT_EQ(emission_->committed().size(), 3u);
}

TEST_F(EmissionTest, IgnoredEndTokenGoesOn) {
  limits_.ignore_eos = true;
  EXPECT_EQ(Run({'h', kFakeEnd, 'i'}), "hi");
  EXPECT_EQ(last_.finish, std::nullopt);
}

TEST_F(EmissionTest, LastAllowedTokenEndsByLength) {
  limits_.max_tokens = 2;
  EXPECT_EQ(Run({'a', 'b', 'c'}), "ab");
  EXPECT_EQ(last_.finish, FinishReason::kLength);
}

TEST_F(EmissionTest, EndTokenAtTheLimitIsAStop) {
  limits_.max_tokens = 2;
  Run({'a', kFakeEnd});
  EXPECT_EQ(last_.finish, FinishReason::kStop);
}

TEST_F(EmissionTest, StopTokenGivesNoText) {
  limits_.stop_token_ids = {'x'};
  EXPECT_EQ(Run({'a', 'x', 'b'}), "a");
  EXPECT_EQ(last_.finish, FinishReason::kStop);
  EXPECT_EQ(emission_->committed().size(), 2u);
}

TEST_F(EmissionTest, StopStringIsCutAndEndsTheAnswer) {
  limits_.stop = {"END"};
  EXPECT_EQ(Run({'a', 'E', 'N', 'D', 'b'}), "a");
  EXPECT_EQ(last_.finish, FinishReason::kStop);
  EXPECT_TRUE(last_.by_stop_string);
  EXPECT_EQ(emission_->committed().size(), 4u);
}

TEST_F(EmissionTest, HalfAStopStringIsTextAfterAll) {
  limits_.stop = {"END"};
  EXPECT_EQ(Run({'a', 'E', 'N', kFakeEnd}), "aEN");
}

TEST_F(EmissionTest, HalfAStopStringAtTheLimitIsTextAfterAll) {
  limits_.stop = {"END"};
  limits_.max_tokens = 3;
  EXPECT_EQ(Run({'a', 'E', 'N'}), "aEN");
  EXPECT_EQ(last_.finish, FinishReason::kLength);
}

TEST_F(EmissionTest, NeverGivesHalfACharacter) {
  limits_.stop = {};
  emission_.emplace(std::make_shared<FakeTokenizer>(), limits_);
  EXPECT_EQ(emission_->Commit(0xC3).text, "");
  EXPECT_EQ(emission_->Commit(0xA9).text, "\xC3\xA9");
}

TEST_F(EmissionTest, HalfACharacterAtTheEndBecomesTheReplacement) {
  EXPECT_EQ(Run({'a', 0xC3, kFakeEnd}), "a\xEF\xBF\xBD");
}

TEST_F(EmissionTest, FlushesOnce) {
  limits_.stop = {"END"};
  emission_.emplace(std::make_shared<FakeTokenizer>(), limits_);
  EXPECT_EQ(emission_->Commit('E').text, "");
  EXPECT_EQ(emission_->Flush(), "E");
  EXPECT_EQ(emission_->Flush(), "");
}

}  // namespace
}  // namespace baton::gateway
