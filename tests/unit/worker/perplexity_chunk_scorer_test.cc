#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_forward.h"
#include "worker/cache/block_pool.h"
#include "worker/perplexity/chunk_scorer.h"

namespace baton::worker {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocabulary = 50;
constexpr uint32_t kContext = 150;  // more than two blocks
constexpr uint32_t kModelContext = 200;
constexpr uint32_t kFirstScored = 76;  // the first token that is predicted
constexpr TokenId kBos = 1;

std::vector<TokenId> Tokens(uint32_t seed) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < kContext; ++i) {
    tokens.push_back(static_cast<TokenId>(2 + (i * i + seed * i) % 47));
  }
  return tokens;
}

// -ln p of the token at `position` after those before it, worked out from
// logits * scale.
double Nll(const std::vector<TokenId>& tokens, size_t position, double scale) {
  const std::vector<float> logits = FakeForward::LogitsAfter(
      std::span<const TokenId>(tokens).first(position), kVocabulary);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit * scale);
  return std::log(sum) - logits[static_cast<size_t>(tokens[position])] * scale;
}

double MeanNll(const std::vector<std::vector<TokenId>>& chunks, double scale) {
  double sum = 0;
  size_t count = 0;
  for (std::vector<TokenId> tokens : chunks) {
    for (size_t position = kFirstScored; position < tokens.size(); ++position) {
      sum += Nll(tokens, position, scale);
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

// Half the logits of another.
class FlatterForward final : public Forward {
 public:
  explicit FlatterForward(Forward* forward) : forward_(forward) {}
  absl::StatusOr<StepLogits> Run(const StepBatch& batch) override {
    const auto logits = forward_->Run(batch);
    if (!logits.ok()) return logits;
    values_.assign(logits->values.begin(), logits->values.end());
    for (float& value : values_) value /= 2;
    return StepLogits{values_, logits->vocabulary};
  }
  uint32_t vocabulary() const override { return forward_->vocabulary(); }
  uint32_t context_length() const override {
    return forward_->context_length();
  }

 private:
  Forward* const forward_;
  std::vector<float> values_;
};

// A fake model with blocks for one chunk.
struct Fake {
  explicit Fake(uint32_t vocabulary = kVocabulary)
      : pool(*BlockPool::Create({FakeForward::kRowBytes * 64, 3, 64})),
        blocks(*pool->TryAllocate(3)),
        forward(pool.get(), vocabulary, kModelContext) {
    for (const BlockRef& block : blocks) table.push_back(block.index());
  }
  ChunkRunner runner() { return {&forward, table}; }

  std::unique_ptr<BlockPool> pool;
  std::vector<BlockRef> blocks;
  std::vector<uint32_t> table;
  FakeForward forward;
};

std::unique_ptr<ChunkScorer> MakeScorer(
    ChunkRunner model, std::optional<ChunkRunner> base = std::nullopt,
    TokenId bos = -1) {
  ChunkScorer::Options options;
  options.context = kContext;
  options.bos = bos;
  auto scorer = ChunkScorer::Create(options, model, base);
  EXPECT_TRUE(scorer.ok()) << scorer.status();
  return *std::move(scorer);
}

TEST(ChunkScorerTest, ScoresTheSecondHalfOfEachChunkByItself) {
  Fake fake;
  const auto scorer = MakeScorer(fake.runner());
  ASSERT_TRUE(scorer->Score(Tokens(3)).ok());
  ASSERT_TRUE(scorer->Score(Tokens(5)).ok());
  EXPECT_EQ(scorer->nll().count(), 2 * (kContext - kFirstScored));
  EXPECT_NEAR(scorer->nll().estimate().value,
              MeanNll({Tokens(3), Tokens(5)}, 1), 1e-9);
  EXPECT_EQ(scorer->base_nll().count(), 0u);
}

TEST(ChunkScorerTest, BosTakesThePlaceOfAChunksFirstToken) {
  Fake fake;
  const auto scorer = MakeScorer(fake.runner(), std::nullopt, kBos);
  ASSERT_TRUE(scorer->Score(Tokens(3)).ok());
  std::vector<TokenId> expected = Tokens(3);
  expected[0] = kBos;
  EXPECT_NEAR(scorer->nll().estimate().value, MeanNll({expected}, 1), 1e-9);
}

TEST(ChunkScorerTest, NoStepIsLongerThanTheBound) {
  Fake fake;
  uint64_t rows = 0, logits = 0;
  fake.forward.on_run = [&](const StepBatch& batch) {
    ASSERT_EQ(batch.sequences.size(), 1u);
    EXPECT_LE(batch.sequences[0].tokens.size(), kStepRows);
    rows += batch.sequences[0].tokens.size();
    logits += batch.sequences[0].logit_rows;
  };
  ASSERT_TRUE(MakeScorer(fake.runner())->Score(Tokens(3)).ok());
  EXPECT_EQ(rows, kContext - 1);
  EXPECT_EQ(logits, kContext - kFirstScored);
}

TEST(ChunkScorerTest, AModelIsNotApartFromItself) {
  Fake model, base;
  const auto scorer = MakeScorer(model.runner(), base.runner());
  ASSERT_TRUE(scorer->Score(Tokens(3)).ok());
  const DivergenceReport report = scorer->divergence().Report();
  EXPECT_EQ(report.largest_kld, 0);
  EXPECT_EQ(report.mean_kld.value, 0);
  EXPECT_EQ(report.same_top.value, 1);
  EXPECT_EQ(report.rms_probability_difference.value, 0);
  EXPECT_EQ(scorer->base_nll().estimate().value,
            scorer->nll().estimate().value);
}

TEST(ChunkScorerTest, ComparesEachPositionWithTheBase) {
  Fake model, base;
  FlatterForward flatter(&base.forward);
  const auto scorer =
      MakeScorer(model.runner(), ChunkRunner{&flatter, base.table});
  ASSERT_TRUE(scorer->Score(Tokens(3)).ok());
  EXPECT_NEAR(scorer->nll().estimate().value, MeanNll({Tokens(3)}, 1), 1e-9);
  EXPECT_NEAR(scorer->base_nll().estimate().value, MeanNll({Tokens(3)}, 0.5),
              1e-9);
  double difference = 0;
  for (size_t i = kFirstScored; i < kContext; ++i) {
    const double p = std::exp(-Nll(Tokens(3), i, 1));
    difference += std::pow(p - std::exp(-Nll(Tokens(3), i, 0.5)), 2);
  }
  const DivergenceReport report = scorer->divergence().Report();
  EXPECT_NEAR(report.rms_probability_difference.value,
              std::sqrt(difference / (kContext - kFirstScored)), 1e-9);
  // Half the logits leave the order as it is.
  EXPECT_EQ(report.same_top.value, 1);
  EXPECT_GT(report.median_kld, 0);
}

TEST(ChunkScorerTest, RefusesWhatDoesNotFit) {
  Fake fake, other(kVocabulary + 1);
  const auto status = [&](uint32_t context, ChunkRunner model,
                          std::optional<ChunkRunner> base) {
    ChunkScorer::Options options;
    options.context = context;
    return ChunkScorer::Create(options, model, base).status();
  };
  for (const auto& [refused, why] :
       std::vector<std::pair<absl::Status, std::string>>{
           {status(2, fake.runner(), std::nullopt), "scores none"},
           {status(kModelContext + 1, fake.runner(), std::nullopt),
            "longer than the model's 200"},
           {status(194, fake.runner(), std::nullopt), "3 blocks do not hold"},
           {status(100, fake.runner(), other.runner()),
            "the vocabularies differ: 50 and 51"}}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(why));
  }
  EXPECT_TRUE(status(193, fake.runner(), std::nullopt).ok());
  const std::vector<TokenId> tokens(kContext - 1, 2);
  EXPECT_EQ(MakeScorer(fake.runner())->Score(tokens).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ChunkScorerTest, LogitsThatAreNoNumbersAreAnError) {
  Fake fake, base;
  const std::vector<TokenId> tokens = Tokens(3);
  base.forward.broken_token = tokens[100];
  const absl::Status status =
      MakeScorer(fake.runner(), base.runner())->Score(tokens);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "the logits of the base are not finite");
}

TEST(ChunkScorerTest, AFailedStepEndsTheChunk) {
  Fake fake;
  fake.forward.failing_token = Tokens(3)[10];
  EXPECT_EQ(MakeScorer(fake.runner())->Score(Tokens(3)).code(),
            absl::StatusCode::kInternal);
}

TEST(ChunkScorerTest, StopsWhenToldTo) {
  Fake fake;
  uint32_t steps = 0;
  ChunkScorer::Options options;
  options.context = kContext;
  options.after_step = [&steps](uint32_t) { return ++steps < 2; };
  const auto scorer =
      *ChunkScorer::Create(options, fake.runner(), std::nullopt);
  EXPECT_EQ(scorer->Score(Tokens(3)).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(steps, 2u);
}

}  // namespace
}  // namespace baton::worker
