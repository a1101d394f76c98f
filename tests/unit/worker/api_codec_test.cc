#include <gtest/gtest.h>

#include <string>

#include "services/base/error_details.h"
#include "worker/api/event_queue.h"
#include "worker/api/sampling_codec.h"

namespace baton::worker {
namespace {

TEST(SamplingCodec, UnsetTakesTheDefaultAndZeroIsZero) {
  v1::SamplingParams message;
  auto params = DecodeSampling(message, 100);
  ASSERT_TRUE(params.ok());
  EXPECT_EQ(params->temperature, SamplingParams().temperature);
  EXPECT_EQ(params->top_p, SamplingParams().top_p);
  message.set_temperature(0);
  message.set_top_k(7);
  message.set_min_p(0.25f);
  message.set_repetition_penalty(1.5f);
  message.set_presence_penalty(-1);
  message.set_frequency_penalty(2);
  message.set_seed(99);
  message.set_logprobs(true);
  message.set_top_logprobs(20);
  auto* bias = message.add_logit_bias();
  bias->set_token_id(4);
  bias->set_bias(-100);
  params = DecodeSampling(message, 100);
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature, 0);
  EXPECT_EQ(params->top_k, 7);
  EXPECT_EQ(params->min_p, 0.25f);
  EXPECT_EQ(params->repetition_penalty, 1.5f);
  EXPECT_EQ(params->presence_penalty, -1);
  EXPECT_EQ(params->frequency_penalty, 2);
  EXPECT_EQ(params->seed, 99u);
  EXPECT_TRUE(params->logprobs);
  EXPECT_EQ(params->top_logprobs, 20u);
  ASSERT_EQ(params->logit_bias.size(), 1u);
  EXPECT_EQ(params->logit_bias[0].first, 4);
}

TEST(SamplingCodec, StopIsBoundedByTheContext) {
  v1::StopConditions message;
  EXPECT_EQ(DecodeStop(message, 100, 90, 128)->max_tokens, 38u);
  message.set_max_tokens(10);
  EXPECT_EQ(DecodeStop(message, 100, 90, 128)->max_tokens, 10u);
  message.set_max_tokens(1000);
  message.set_min_tokens(500);
  const auto stop = DecodeStop(message, 100, 90, 128);
  ASSERT_TRUE(stop.ok());
  EXPECT_EQ(stop->max_tokens, 38u);
  EXPECT_EQ(stop->min_tokens, 38u);
}

TEST(SamplingCodec, PromptFaultsNameFieldAndReason) {
  google::protobuf::RepeatedField<int32_t> ids;
  EXPECT_EQ(ErrorField(DecodePrompt(ids, 10, 4).status()), "token_ids");
  ids.Add(1);
  ids.Add(10);
  const absl::Status range = DecodePrompt(ids, 10, 4).status();
  EXPECT_TRUE(absl::IsInvalidArgument(range));
  EXPECT_EQ(ErrorField(range), "token_ids");
  ids.Set(1, 9);
  EXPECT_EQ(*DecodePrompt(ids, 10, 4), (std::vector<TokenId>{1, 9}));
  ids.Add(1);
  ids.Add(1);
  EXPECT_EQ(ErrorReason(DecodePrompt(ids, 10, 4).status()),
            "context_length_exceeded");
}

TEST(SamplingCodec, CommittedTokensAreNoMoreThanTheAnswerMayHave) {
  google::protobuf::RepeatedField<int32_t> ids;
  EXPECT_TRUE(DecodeCommitted(ids, 10, 0)->empty());
  ids.Add(1);
  ids.Add(9);
  EXPECT_EQ(*DecodeCommitted(ids, 10, 2), (std::vector<TokenId>{1, 9}));
  for (const uint32_t max_tokens : {0u, 1u}) {
    const absl::Status status = DecodeCommitted(ids, 10, max_tokens).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(ErrorField(status), "committed_token_ids");
  }
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeCommitted(ids, 9, 2).status()));
}

TEST(SamplingCodec, TokenGoesOutWithItsLogprobs) {
  CommittedToken token;
  token.sampled.token = 5;
  token.position = 17;
  v1::CommittedToken message;
  EncodeToken(token, &message);
  EXPECT_FALSE(message.has_logprob());
  token.sampled.logprob = -0.5f;
  token.sampled.top_logprobs = {{5, -0.5f}, {6, -1.5f}};
  message.Clear();
  EncodeToken(token, &message);
  EXPECT_EQ(message.token_id(), 5);
  EXPECT_EQ(message.position(), 17u);
  EXPECT_EQ(message.logprob(), -0.5f);
  ASSERT_EQ(message.top_logprobs_size(), 2);
  EXPECT_EQ(message.top_logprobs(1).token_id(), 6);
}

// Strings fold if both start with '+'.
bool FoldPlus(const std::string& next, std::string* last) {
  if (next[0] != '+' || (*last)[0] != '+') return false;
  *last += next;
  return true;
}

TEST(EventQueue, WritesOneAtATimeAndFoldsWhatWaits) {
  EventQueue<std::string> queue(FoldPlus);
  const std::string* writing = queue.Push("+1");
  ASSERT_NE(writing, nullptr);
  EXPECT_EQ(queue.Push("+2"), nullptr);
  EXPECT_EQ(queue.Push("+3"), nullptr);
  EXPECT_EQ(queue.Push("x"), nullptr);
  EXPECT_EQ(queue.Push("+4"), nullptr);
  // What is being written never changes.
  EXPECT_EQ(*writing, "+1");
  EXPECT_EQ(*queue.Next(), "+2+3");
  EXPECT_EQ(*queue.Next(), "x");
  EXPECT_EQ(*queue.Next(), "+4");
  EXPECT_EQ(queue.Next(), nullptr);
}

TEST(EventQueue, FinishIsTakenOnceAfterTheLastWrite) {
  EventQueue<std::string> queue(FoldPlus);
  ASSERT_NE(queue.Push("a"), nullptr);
  queue.Push("b");
  EXPECT_FALSE(queue.TakeFinish());
  EXPECT_FALSE(queue.Close());
  EXPECT_EQ(queue.Push("late"), nullptr);
  EXPECT_NE(queue.Next(), nullptr);
  EXPECT_FALSE(queue.TakeFinish());
  EXPECT_EQ(queue.Next(), nullptr);
  EXPECT_TRUE(queue.TakeFinish());
  EXPECT_FALSE(queue.TakeFinish());
  EXPECT_FALSE(queue.Close());
}

TEST(EventQueue, DroppedEventsAreNotWaitedFor) {
  EventQueue<std::string> queue(FoldPlus);
  ASSERT_NE(queue.Push("a"), nullptr);
  queue.Push("b");
  queue.DropWaiting();
  EXPECT_FALSE(queue.Close());
  EXPECT_EQ(queue.Next(), nullptr);
  EXPECT_TRUE(queue.TakeFinish());
}

}  // namespace
}  // namespace baton::worker
