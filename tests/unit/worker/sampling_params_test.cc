#include "worker/sampling/sampling_params.h"

#include <functional>
#include <limits>

#include "gtest/gtest.h"
#include "services/base/error_details.h"

namespace baton::worker {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void ExpectRefused(const char* field,
                   const std::function<void(SamplingParams*)>& set) {
  SamplingParams params;
  set(&params);
  const absl::Status status = ValidateSampling(params, 100);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
  EXPECT_EQ(ErrorField(status), field);
}

TEST(ValidateSamplingTest, AcceptsDefaultsAndTheEndsOfEachRange) {
  EXPECT_TRUE(ValidateSampling({}, 100).ok());
  SamplingParams params;
  params.temperature = 0;
  params.top_k = std::numeric_limits<int32_t>::max();
  params.top_p = 1e-9f;
  params.min_p = 1;
  params.repetition_penalty = 1e-9f;
  params.presence_penalty = -2;
  params.frequency_penalty = 2;
  params.logit_bias = {{0, -100.0f}, {99, 100.0f}};
  params.logprobs = true;
  params.top_logprobs = 20;
  EXPECT_TRUE(ValidateSampling(params, 100).ok());
}

TEST(ValidateSamplingTest, RefusesWhatIsOutOfRangeAndNamesTheField) {
  for (float bad : {kNaN, kInfinity, -kInfinity, -0.5f}) {
    ExpectRefused("temperature", [&](auto* p) { p->temperature = bad; });
    ExpectRefused("top_p", [&](auto* p) { p->top_p = bad; });
    ExpectRefused("min_p", [&](auto* p) { p->min_p = bad; });
    ExpectRefused("repetition_penalty",
                  [&](auto* p) { p->repetition_penalty = bad; });
  }
  for (float bad : {kNaN, kInfinity, -kInfinity, -2.1f, 2.1f}) {
    ExpectRefused("presence_penalty",
                  [&](auto* p) { p->presence_penalty = bad; });
    ExpectRefused("frequency_penalty",
                  [&](auto* p) { p->frequency_penalty = bad; });
  }
  for (float bad : {kNaN, kInfinity, -100.5f, 100.5f}) {
    ExpectRefused("logit_bias", [&](auto* p) { p->logit_bias = {{1, bad}}; });
  }
  ExpectRefused("top_k", [](auto* p) { p->top_k = -1; });
  ExpectRefused("top_p", [](auto* p) { p->top_p = 0; });
  ExpectRefused("top_p", [](auto* p) { p->top_p = 1.001f; });
  ExpectRefused("min_p", [](auto* p) { p->min_p = 1.001f; });
  ExpectRefused("repetition_penalty",
                [](auto* p) { p->repetition_penalty = 0; });
  ExpectRefused("logit_bias", [](auto* p) { p->logit_bias = {{100, 1.0f}}; });
  ExpectRefused("logit_bias", [](auto* p) { p->logit_bias = {{-1, 1.0f}}; });
  ExpectRefused("top_logprobs", [](auto* p) {
    p->logprobs = true;
    p->top_logprobs = 21;
  });
  ExpectRefused("top_logprobs", [](auto* p) { p->top_logprobs = 1; });
}

TEST(ValidateStopTest, ChecksCountsAndTokens) {
  EXPECT_TRUE(ValidateStop({}, 10).ok());
  EXPECT_TRUE(ValidateStop({.max_tokens = 3, .min_tokens = 3}, 10).ok());
  EXPECT_EQ(ErrorField(ValidateStop({.max_tokens = 0}, 10)), "max_tokens");
  EXPECT_EQ(ErrorField(ValidateStop({.max_tokens = 2, .min_tokens = 3}, 10)),
            "min_tokens");
  EXPECT_EQ(ErrorField(ValidateStop({.stop_token_ids = {3, 10}}, 10)),
            "stop_token_ids");
  EXPECT_EQ(ErrorField(ValidateStop({.stop_token_ids = {-1}}, 10)),
            "stop_token_ids");
}

}  // namespace
}  // namespace baton::worker
