#include "worker/sampling/sampling_chain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/sampling/philox.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SampledToken SampleOk(std::span<const float> logits,
                      const SamplingParams& params,
                      const TokenHistory& history = {}, uint32_t position = 0,
                      std::span<const TokenId> masked = {}) {
  SamplingChain chain;
  auto sampled = chain.Sample({.logits = logits,
                               .params = params,
                               .history = history,
                               .position = position,
                               .masked = masked});
  EXPECT_TRUE(sampled.ok()) << sampled.status();
  return sampled.ok() ? *sampled : SampledToken{.token = -1};
}

absl::Status SampleError(std::vector<float> logits, SamplingParams params = {},
                         std::span<const TokenId> masked = {}) {
  SamplingChain chain;
  const TokenHistory history;
  return chain
      .Sample({.logits = logits,
               .params = params,
               .history = history,
               .masked = masked})
      .status();
}

// Logits that are the same bits on every machine.
std::vector<float> HashedLogits(uint64_t seed, size_t count, float spread) {
  std::mt19937_64 random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    logit = (static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f) * spread;
  }
  return logits;
}

// The documented chain, as plainly as it can be said: every token sorted, all
// in long double, libm's exp. Returns the kept tokens and their probabilities
// in the order of the draw.
struct Law {
  std::vector<TokenId> tokens;
  std::vector<long double> probabilities;
  std::vector<long double> logprobs;  // by token
};

Law PlainLaw(std::vector<float> row, const SamplingParams& params,
             std::span<const TokenId> prompt, std::span<const TokenId> output,
             std::span<const TokenId> masked) {
  std::vector<long double> logits(row.begin(), row.end());
  for (auto [token, bias] : params.logit_bias) logits[token] += bias;
  for (size_t t = 0; t < logits.size(); ++t) {
    const auto in_prompt = std::count(prompt.begin(), prompt.end(), t);
    const auto in_output = std::count(output.begin(), output.end(), t);
    if (in_prompt + in_output > 0) {
      logits[t] = logits[t] > 0 ? logits[t] / params.repetition_penalty
                                : logits[t] * params.repetition_penalty;
    }
    if (in_output > 0) {
      logits[t] -= params.presence_penalty;
      logits[t] -= params.frequency_penalty * in_output;
    }
    logits[t] = static_cast<float>(logits[t]);
  }
  for (TokenId token : masked) logits[token] = -kInfinity;

  Law law;
  long double sum = 0;
  for (long double logit : logits) sum += expl(logit);
  for (long double logit : logits) law.logprobs.push_back(logit - logl(sum));

  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) {
    order.resize(std::min<size_t>(order.size(), params.top_k));
  }
  sum = 0;
  for (TokenId t : order) sum += expl(logits[t]);
  const long double largest = expl(logits[order[0]]) / sum;
  long double cumulative = 0;
  std::vector<TokenId> kept;
  for (TokenId t : order) {
    const long double p = expl(logits[t]) / sum;
    if (!kept.empty() && cumulative >= params.top_p) break;
    if (!kept.empty() && p < params.min_p * largest) break;
    if (std::isinf(logits[t])) break;
    cumulative += p;
    kept.push_back(t);
  }
  sum = 0;
  for (TokenId t : kept) sum += expl(logits[t] / params.temperature);
  for (TokenId t : kept) {
    law.tokens.push_back(t);
    law.probabilities.push_back(expl(logits[t] / params.temperature) / sum);
  }
  return law;
}

TokenId PlainDraw(const Law& law, double u) {
  long double cumulative = 0;
  for (size_t i = 0; i < law.tokens.size(); ++i) {
    cumulative += law.probabilities[i];
    if (cumulative > u) return law.tokens[i];
  }
  return law.tokens.back();
}

struct OptionCase {
  const char* name;
  std::function<void(SamplingParams*)> set;
};

class EachOption : public testing::TestWithParam<OptionCase> {};

TEST_P(EachOption, DrawsAndLogprobsAreThoseOfThePlainChain) {
  const std::vector<TokenId> prompt = {1, 2, 2, 5, 9};
  const std::vector<TokenId> output = {2, 3, 3, 3, 7};
  std::vector<TokenId> tokens = prompt;
  tokens.insert(tokens.end(), output.begin(), output.end());
  const TokenHistory history(tokens, 5);
  const std::vector<TokenId> masked = {11};
  for (uint32_t round = 0; round < 400; ++round) {
    const std::vector<float> logits =
        HashedLogits(round, 16 + round % 300, 4.0f + round % 17);
    SamplingParams params;
    params.seed = 99 + round;
    params.logprobs = true;
    params.top_logprobs = 3;
    GetParam().set(&params);
    const Law law = PlainLaw(logits, params, prompt, output, masked);
    const SampledToken sampled =
        SampleOk(logits, params, history, round, masked);
    ASSERT_EQ(sampled.token, PlainDraw(law, UniformAt(params.seed, round, 0,
                                                      DrawPurpose::kToken)))
        << "round " << round;
    ASSERT_NEAR(*sampled.logprob,
                static_cast<double>(law.logprobs[sampled.token]), 1e-5);
    ASSERT_EQ(sampled.top_logprobs.size(), 3u);
    std::vector<long double> sorted = law.logprobs;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (int i = 0; i < 3; ++i) {
      ASSERT_NEAR(sampled.top_logprobs[i].logprob,
                  static_cast<double>(sorted[i]), 1e-5);
      ASSERT_NEAR(
          static_cast<double>(law.logprobs[sampled.top_logprobs[i].token]),
          static_cast<double>(sorted[i]), 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, EachOption,
    testing::Values(
        OptionCase{"Plain", [](SamplingParams*) {}},
        OptionCase{"Cold", [](SamplingParams* p) { p->temperature = 0.3f; }},
        OptionCase{"Hot", [](SamplingParams* p) { p->temperature = 2.5f; }},
        OptionCase{"TopK", [](SamplingParams* p) { p->top_k = 7; }},
        OptionCase{"TopKAboveVocabulary",
                   [](SamplingParams* p) { p->top_k = 100000; }},
        OptionCase{"TopP", [](SamplingParams* p) { p->top_p = 0.7f; }},
        OptionCase{"TinyTopP", [](SamplingParams* p) { p->top_p = 1e-6f; }},
        OptionCase{"MinP", [](SamplingParams* p) { p->min_p = 0.2f; }},
        OptionCase{"MinPOne", [](SamplingParams* p) { p->min_p = 1.0f; }},
        OptionCase{"Repetition",
                   [](SamplingParams* p) { p->repetition_penalty = 1.8f; }},
        OptionCase{"RepetitionBelowOne",
                   [](SamplingParams* p) { p->repetition_penalty = 0.5f; }},
        OptionCase{"Presence",
                   [](SamplingParams* p) { p->presence_penalty = 1.5f; }},
        OptionCase{"Frequency",
                   [](SamplingParams* p) { p->frequency_penalty = -1.25f; }},
        OptionCase{"Bias",
                   [](SamplingParams* p) {
                     p->logit_bias = {{4, 5.0f}, {2, -100.0f}, {4, 1.0f}};
                   }},
        OptionCase{"All",
                   [](SamplingParams* p) {
                     p->temperature = 0.8f;
                     p->top_k = 40;
                     p->top_p = 0.9f;
                     p->min_p = 0.02f;
                     p->repetition_penalty = 1.2f;
                     p->presence_penalty = 0.5f;
                     p->frequency_penalty = 0.25f;
                     p->logit_bias = {{3, 2.0f}, {6, -3.0f}};
                   }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SamplingChainTest, GreedyTakesTheLowestIdOfTies) {
  SamplingParams params;
  params.temperature = 0;
  std::vector<float> logits(100, -1.0f);
  logits[17] = logits[16] = logits[63] = 2.5f;
  EXPECT_EQ(SampleOk(logits, params).token, 16);
  EXPECT_EQ(SampleOk(std::vector<float>(50, 0.0f), params).token, 0);
  // In any block of a scan, at its edges and behind the last.
  for (size_t lowest : {0, 63, 64, 127, 128, 199}) {
    std::vector<float> row(200, -1.0f);
    std::fill(row.begin() + static_cast<ptrdiff_t>(lowest), row.end(), 2.5f);
    EXPECT_EQ(SampleOk(row, params).token, static_cast<TokenId>(lowest));
  }
  // Ties of a tail that is shorter than a vector register.
  EXPECT_EQ(SampleOk(std::vector<float>{1, 3, 3}, params).token, 1);
}

TEST(SamplingChainTest, TiesAreDrawnAndCutByAscendingId) {
  SamplingParams params;
  params.top_k = 2;
  params.logprobs = true;
  params.top_logprobs = 3;
  const std::vector<float> logits(64, 1.0f);
  for (uint32_t position = 0; position < 50; ++position) {
    const SampledToken sampled = SampleOk(logits, params, {}, position);
    const double u = UniformAt(0, position, 0, DrawPurpose::kToken);
    EXPECT_EQ(sampled.token, u < 0.5 ? 0 : 1);
    EXPECT_EQ(sampled.top_logprobs[2].token, 2);
  }
}

TEST(SamplingChainTest, GreedyHonoursBiasPenaltiesAndMask) {
  SamplingParams params;
  params.temperature = 0;
  const std::vector<float> logits = {1, 4, 3, 2};
  EXPECT_EQ(SampleOk(logits, params, {}, 0, std::vector<TokenId>{1}).token, 2);
  params.repetition_penalty = 10;
  const TokenHistory history(std::vector<TokenId>{1, 2}, 1);
  EXPECT_EQ(SampleOk(logits, params, history).token, 3);
  params.logit_bias = {{0, 50.0f}};
  EXPECT_EQ(SampleOk(logits, params, history).token, 0);
}

// Frozen: a change here changes what clients receive for a seed.
TEST(SamplingChainTest, DrawsAreFrozen) {
  const std::vector<float> logits = HashedLogits(5, 49152, 24.0f);
  SamplingParams params;
  params.seed = 0x123456789abcdef0;
  std::vector<TokenId> drawn;
  for (uint32_t position = 0; position < 6; ++position) {
    drawn.push_back(SampleOk(logits, params, {}, position).token);
  }
  EXPECT_THAT(drawn, ElementsAre(7891, 4244, 16128, 4965, 38384, 46026));
  params.temperature = 0.7f;
  params.top_k = 40;
  params.top_p = 0.9f;
  params.min_p = 0.05f;
  drawn.clear();
  for (uint32_t position = 0; position < 6; ++position) {
    drawn.push_back(SampleOk(logits, params, {}, position).token);
  }
  EXPECT_THAT(drawn, ElementsAre(6254, 9565, 24212, 9565, 11045, 24764));
}

TEST(SamplingChainTest, FrequenciesFollowTheLaw) {
  // 2e5 draws, 8 cells, alpha 1e-6: chi-square with 7 degrees, bound 40.5.
  const std::vector<float> logits = {0.5f, -1, 2, 0, 1, -0.5f, 1.5f, -2};
  constexpr uint32_t kDraws = 200000;
  SamplingParams params;
  params.temperature = 1.3f;
  params.seed = 2024;
  const Law law = PlainLaw(logits, params, {}, {}, {});
  std::vector<uint32_t> counts(8);
  for (uint32_t i = 0; i < kDraws; ++i) {
    ++counts[SampleOk(logits, params, {}, i).token];
  }
  double chi_square = 0;
  for (size_t i = 0; i < 8; ++i) {
    const double expected = static_cast<double>(law.probabilities[i]) * kDraws;
    const double difference = counts[law.tokens[i]] - expected;
    chi_square += difference * difference / expected;
  }
  EXPECT_LT(chi_square, 40.5);
}

TEST(SamplingChainTest, SeedsAndPositionsDrawIndependently) {
  // Pairs of neighbouring seeds on a fair coin: 4 cells, 3 degrees, alpha 1e-6.
  const std::vector<float> logits = {0, 0};
  std::vector<double> cells(4);
  SamplingParams params;
  for (uint32_t i = 0; i < 40000; ++i) {
    params.seed = i;
    const TokenId a = SampleOk(logits, params, {}, 1).token;
    params.seed = i + 1;
    const TokenId b = SampleOk(logits, params, {}, 2).token;
    ++cells[2 * a + b];
  }
  double chi_square = 0;
  for (double cell : cells) {
    chi_square += (cell - 10000) * (cell - 10000) / 10000;
  }
  EXPECT_LT(chi_square, 30.7);
}

TEST(SamplingChainTest, BrokenLogitsAreAnInternalError) {
  for (size_t at : {0u, 15u, 16u, 33u}) {
    std::vector<float> logits(35, 1.0f);
    logits[at] = kNaN;
    EXPECT_EQ(SampleError(logits).code(), absl::StatusCode::kInternal);
    logits[at] = kInfinity;
    EXPECT_EQ(SampleError(logits).code(), absl::StatusCode::kInternal);
  }
  SamplingParams greedy;
  greedy.temperature = 0;
  EXPECT_EQ(SampleError({kNaN, 1}, greedy).code(), absl::StatusCode::kInternal);
  const std::vector<TokenId> mask = {0};
  EXPECT_EQ(SampleError({kNaN, 1}, {}, mask).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(SampleError({1.0f}, {}, mask).code(), absl::StatusCode::kInternal);
}

TEST(SamplingChainTest, MinusInfinityIsNeverDrawn) {
  SamplingParams params;
  params.temperature = 50;
  const std::vector<float> logits = {-kInfinity, 1, -kInfinity, 1};
  for (uint32_t position = 0; position < 200; ++position) {
    EXPECT_EQ(SampleOk(logits, params, {}, position).token % 2, 1);
  }
}

TEST(SamplingChainTest, ExtremeParametersStaySound) {
  const std::vector<float> logits = {3, -3, 2.9999f, 0};
  SamplingParams params;
  params.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(SampleOk(logits, params).token, 0);
  params.temperature = std::numeric_limits<float>::max();
  SampleOk(logits, params);
  params = {};
  params.repetition_penalty = std::numeric_limits<float>::denorm_min();
  const TokenHistory history(std::vector<TokenId>{0, 1}, 1);
  EXPECT_EQ(SampleOk(logits, params, history).token, 0);
  params.repetition_penalty = std::numeric_limits<float>::max();
  SampleOk(logits, params, history);
}

TEST(SamplingChainTest, OneChainServesRowsOfManySequences) {
  SamplingChain chain;
  const TokenHistory none;
  SamplingParams greedy, biased;
  greedy.temperature = 0;
  biased.temperature = 0;
  biased.logit_bias = {{0, 9.0f}};
  const std::vector<float> row = {1, 2, 3};
  const auto sample = [&](const SamplingParams& params) {
    return chain.Sample({.logits = row, .params = params, .history = none})
        ->token;
  };
  EXPECT_EQ(sample(greedy), 2);
  EXPECT_EQ(sample(biased), 0);
  EXPECT_EQ(sample(greedy), 2);
}

TEST(TokenHistoryTest, ReplayGivesTheSameStateAsGrowth) {
  const std::vector<TokenId> tokens = {4, 4, 2, 9, 4, 2, 2};
  TokenHistory grown(std::span<const TokenId>(tokens).first(3), 3);
  for (size_t i = 3; i < tokens.size(); ++i) grown.AppendOutput(tokens[i]);
  const TokenHistory replayed(tokens, 3);
  EXPECT_EQ(grown.counts(), replayed.counts());
  EXPECT_EQ(grown.counts().at(4), (TokenHistory::Counts{2, 1}));
  EXPECT_EQ(grown.counts().at(2), (TokenHistory::Counts{1, 2}));
  EXPECT_FALSE(grown.counts().contains(3));
}

}  // namespace
}  // namespace baton::worker
