// The figures on numbers small enough to work out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "worker/perplexity/position.h"
#include "worker/perplexity/statistics.h"

namespace baton::worker {
namespace {

constexpr double kNear = 1e-12;

std::vector<double> LogsOf(const std::vector<double>& probabilities) {
  std::vector<double> logs;
  for (const double p : probabilities) logs.push_back(std::log(p));
  return logs;
}

TEST(LogSoftmaxTest, GivesTheLogarithmOfTheShares) {
  std::vector<double> result;
  LogSoftmax(std::vector<float>{0, 0, 0, 0}, &result);
  for (const double value : result) EXPECT_NEAR(value, -std::log(4.0), kNear);
  // 1 : e : e^2, moved by a constant that is no part of it.
  LogSoftmax(std::vector<float>{700, 701, 702}, &result);
  ASSERT_EQ(result.size(), 3u);
  EXPECT_NEAR(result[2], -0.40760596444437987, kNear);
  EXPECT_NEAR(result[1], -1.4076059644443799, kNear);
  EXPECT_NEAR(result[0], -2.40760596444438, kNear);
}

TEST(LogSoftmaxTest, AnExcludedTokenHasNone) {
  std::vector<double> result;
  const float excluded = -std::numeric_limits<float>::infinity();
  LogSoftmax(std::vector<float>{excluded, 3}, &result);
  EXPECT_EQ(result[0], excluded);
  EXPECT_EQ(result[1], 0);
}

TEST(CompareWithBaseTest, MeasuresFromTheBase) {
  const PositionDivergence result =
      CompareWithBase(LogsOf({0.25, 0.5, 0.25}), LogsOf({0.5, 0.25, 0.25}), 1);
  // 1/2 ln 2 - 1/4 ln 2.
  EXPECT_NEAR(result.kld, std::log(2.0) / 4, kNear);
  EXPECT_NEAR(result.probability_difference, 0.25, kNear);
  EXPECT_FALSE(result.same_top);
}

TEST(CompareWithBaseTest, TokensThatTheBaseExcludesAddNothing) {
  const std::vector<double> model = LogsOf({0.25, 0.25, 0.5});
  const std::vector<double> base = LogsOf({0.5, 0.5, 0});
  EXPECT_NEAR(CompareWithBase(model, base, 0).kld, std::log(2.0), kNear);
  // The other way round there is no bound.
  EXPECT_EQ(CompareWithBase(base, model, 0).kld,
            std::numeric_limits<double>::infinity());
}

TEST(CompareWithBaseTest, OfItselfIsExactlyNothing) {
  std::vector<double> logs;
  LogSoftmax(std::vector<float>{1.25f, -7, 0.1f, 3.3f, 3.3f}, &logs);
  const PositionDivergence result = CompareWithBase(logs, logs, 2);
  EXPECT_EQ(result.kld, 0);
  EXPECT_EQ(result.probability_difference, 0);
  EXPECT_TRUE(result.same_top);
}

TEST(CompareWithBaseTest, OfEqualTokensTheFirstIsTheTop) {
  EXPECT_FALSE(
      CompareWithBase(LogsOf({0.3, 0.5, 0.2}), LogsOf({0.4, 0.4, 0.2}), 0)
          .same_top);
  EXPECT_TRUE(
      CompareWithBase(LogsOf({0.5, 0.3, 0.2}), LogsOf({0.4, 0.4, 0.2}), 0)
          .same_top);
}

TEST(RunningMeanTest, KnowsItsError) {
  RunningMean mean;
  EXPECT_EQ(mean.estimate().value, 0);
  mean.Add(1);
  EXPECT_EQ(mean.estimate().value, 1);
  EXPECT_EQ(mean.estimate().standard_error, 0);
  mean.Add(2);
  mean.Add(4);
  EXPECT_EQ(mean.count(), 3u);
  EXPECT_NEAR(mean.estimate().value, 7.0 / 3, kNear);
  // E[x^2] = 7, so (7 - 49/9) / 2.
  EXPECT_NEAR(mean.estimate().standard_error, std::sqrt(7.0 / 9), kNear);
}

TEST(PerplexityTest, IsEToTheMean) {
  const Estimate perplexity = PerplexityOf({std::log(8.0), 0.5});
  EXPECT_NEAR(perplexity.value, 8, kNear);
  EXPECT_NEAR(perplexity.standard_error, 4, kNear);
}

TEST(DivergenceStatisticsTest, ReportsWhatWasAdded) {
  DivergenceStatistics statistics;
  EXPECT_EQ(statistics.Report().mean_kld.value, 0);
  statistics.Add({3, 0.3, true});
  statistics.Add({0, -0.4, false});
  statistics.Add({1, 0, true});
  const DivergenceReport report = statistics.Report();
  EXPECT_NEAR(report.mean_kld.value, 4.0 / 3, kNear);
  // E[x^2] = 10/3, so (10/3 - 16/9) / 2.
  EXPECT_NEAR(report.mean_kld.standard_error, std::sqrt(7.0 / 9), kNear);
  EXPECT_EQ(report.median_kld, 1);
  EXPECT_NEAR(report.kld_99, 2.96, kNear);
  EXPECT_EQ(report.largest_kld, 3);
  EXPECT_NEAR(report.same_top.value, 2.0 / 3, kNear);
  EXPECT_NEAR(report.same_top.standard_error, 1.0 / 3, kNear);
  const double rms = std::sqrt(0.25 / 3);
  EXPECT_NEAR(report.rms_probability_difference.value, rms, kNear);
  // Squares 0.09, 0.16, 0: error of their mean, over twice the root.
  const double variance = (0.0081 + 0.0256) / 3 - 0.0625 / 9;
  EXPECT_NEAR(report.rms_probability_difference.standard_error,
              std::sqrt(variance / 2) / (2 * rms), kNear);
}

TEST(DivergenceStatisticsTest, NoDifferenceHasNoError) {
  DivergenceStatistics statistics;
  statistics.Add({0, 0, true});
  statistics.Add({0, 0, true});
  const DivergenceReport report = statistics.Report();
  EXPECT_EQ(report.rms_probability_difference.value, 0);
  EXPECT_EQ(report.rms_probability_difference.standard_error, 0);
  EXPECT_EQ(report.same_top.value, 1);
  EXPECT_EQ(report.same_top.standard_error, 0);
}

TEST(PercentileTest, LiesBetweenTheNearestTwo) {
  const std::vector<double> sorted = {1, 2, 4, 8};
  EXPECT_EQ(Percentile(sorted, 0), 1);
  EXPECT_EQ(Percentile(sorted, 1), 8);
  EXPECT_EQ(Percentile(sorted, 0.5), 3);
  EXPECT_NEAR(Percentile(sorted, 0.9), 4 + 0.7 * 4, kNear);
  EXPECT_EQ(Percentile(std::vector<double>{5}, 0.99), 5);
}

}  // namespace
}  // namespace baton::worker
