#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/commit.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TokenId kEos[] = {2, 7};

TEST(CommitTest, ATokenIsAppendedAndCounted) {
  const CommitRules rules({}, kEos, 100);
  CommittedSequence sequence({5, 6}, 2);
  EXPECT_EQ(rules.Commit(5, &sequence), FinishReason::kNone);
  EXPECT_THAT(sequence.tokens, ElementsAre(5, 6, 5));
  EXPECT_EQ(sequence.output_tokens(), 1u);
  EXPECT_EQ(sequence.history.counts().at(5), (TokenHistory::Counts{1, 1}));
}

TEST(CommitTest, EndAndStopTokensStopAndStayInTheSequence) {
  const CommitRules rules({.stop_token_ids = {9}}, kEos, 100);
  for (TokenId token : {2, 7, 9}) {
    CommittedSequence sequence({5}, 1);
    EXPECT_EQ(rules.Commit(token, &sequence), FinishReason::kStop);
    EXPECT_EQ(sequence.tokens.back(), token);
  }
}

TEST(CommitTest, IgnoreEosLeavesStopTokens) {
  const CommitRules rules({.stop_token_ids = {9}, .ignore_eos = true}, kEos,
                          100);
  CommittedSequence sequence({5}, 1);
  EXPECT_EQ(rules.Commit(2, &sequence), FinishReason::kNone);
  EXPECT_EQ(rules.Commit(9, &sequence), FinishReason::kStop);
}

TEST(CommitTest, MaxTokensCountsFromTheEndOfThePrompt) {
  const CommitRules rules({.max_tokens = 3}, kEos, 100);
  // Resumed with one token of output.
  CommittedSequence sequence({5, 6, 8}, 2);
  EXPECT_EQ(rules.Commit(8, &sequence), FinishReason::kNone);
  EXPECT_EQ(rules.Commit(8, &sequence), FinishReason::kLength);
}

TEST(CommitTest, AFullContextEndsTheSequence) {
  const CommitRules rules({}, kEos, 4);
  CommittedSequence sequence({5, 6}, 2);
  EXPECT_EQ(rules.Commit(8, &sequence), FinishReason::kNone);
  EXPECT_EQ(rules.Commit(8, &sequence), FinishReason::kLength);
}

TEST(CommitTest, AnEndTokenAtTheLimitIsAStop) {
  const CommitRules rules({.max_tokens = 1}, kEos, 2);
  CommittedSequence sequence({5}, 1);
  EXPECT_EQ(rules.Commit(2, &sequence), FinishReason::kStop);
}

TEST(CommitTest, EndTokensAreMaskedUntilMinTokens) {
  const CommitRules rules({.stop_token_ids = {9, 2}, .min_tokens = 2}, kEos,
                          100);
  CommittedSequence sequence({5}, 1);
  EXPECT_THAT(rules.Masked(sequence), ElementsAre(2, 7, 9));
  rules.Commit(8, &sequence);
  EXPECT_THAT(rules.Masked(sequence), ElementsAre(2, 7, 9));
  rules.Commit(8, &sequence);
  EXPECT_THAT(rules.Masked(sequence), IsEmpty());
}

TEST(CommitTest, IgnoredEosIsNotMasked) {
  const CommitRules rules({.ignore_eos = true, .min_tokens = 2}, kEos, 100);
  EXPECT_THAT(rules.Masked(CommittedSequence({5}, 1)), IsEmpty());
}

}  // namespace
}  // namespace baton::worker
