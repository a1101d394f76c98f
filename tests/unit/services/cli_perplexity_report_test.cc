#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "services/cli/perplexity_report.h"

namespace baton::cli {
namespace {

PerplexityReport Report() {
  PerplexityReport report;
  report.context = 512;
  report.chunks = 4;
  report.positions = 1020;
  report.seconds = 8;
  report.nll = {std::log(10.0), 0.05};
  return report;
}

PerplexityReport ReportWithBase() {
  PerplexityReport report = Report();
  PerplexityReport::Base base;
  base.nll = {std::log(8.0), 0.04};
  base.divergence.mean_kld = {0.25, 0.01};
  base.divergence.median_kld = 0.125;
  base.divergence.kld_99 = 1.5;
  base.divergence.largest_kld = 12;
  base.divergence.same_top = {0.875, 0.02};
  base.divergence.rms_probability_difference = {0.0625, 0.005};
  report.base = base;
  return report;
}

TEST(PerplexityReportTest, TheTableShowsOneModel) {
  EXPECT_EQ(PerplexityTable(Report()),
            "PPL              10.000000  ±  0.500000\n"
            "Mean NLL (nats)   2.302585  ±  0.050000\n"
            "\n"
            "4 chunks of 512 tokens, 1020 tokens scored, 8.0 s: "
            "256.0 tokens/s\n");
}

TEST(PerplexityReportTest, TheTableShowsTwoModels) {
  EXPECT_EQ(PerplexityTable(ReportWithBase()),
            "PPL                    10.000000  ±  0.500000\n"
            "Mean NLL (nats)         2.302585  ±  0.050000\n"
            "PPL(base)               8.000000  ±  0.320000\n"
            "Mean NLL(base) (nats)   2.079442  ±  0.040000\n"
            "Mean KLD (nats)         0.250000  ±  0.010000\n"
            "Maximum KLD            12.000000\n"
            "99.0% KLD               1.500000\n"
            "Median KLD              0.125000\n"
            "RMS Δp (%)              6.250000  ±  0.500000\n"
            "Same top p (%)         87.500000  ±  2.000000\n"
            "\n"
            "4 chunks of 512 tokens, 1020 tokens scored, 8.0 s: "
            "256.0 tokens/s\n");
}

TEST(PerplexityReportTest, TheJsonHoldsTheSame) {
  const auto json = nlohmann::json::parse(
      PerplexityJson(ReportWithBase(), {{"model", "a.gguf"}}));
  EXPECT_EQ(json["settings"]["model"], "a.gguf");
  EXPECT_EQ(json["chunks"], 4);
  EXPECT_EQ(json["scored_tokens"], 1020);
  EXPECT_EQ(json["tokens_per_second"], 256);
  EXPECT_NEAR(json["perplexity"]["value"].get<double>(), 10, 1e-12);
  EXPECT_NEAR(json["base_perplexity"]["value"].get<double>(), 8, 1e-12);
  EXPECT_NEAR(json["base_perplexity"]["standard_error"].get<double>(), 0.32,
              1e-12);
  const nlohmann::json& divergence = json["kl_divergence"];
  EXPECT_EQ(divergence["mean_kld"]["value"], 0.25);
  EXPECT_EQ(divergence["median_kld"], 0.125);
  EXPECT_EQ(divergence["kld_99"], 1.5);
  EXPECT_EQ(divergence["largest_kld"], 12);
  EXPECT_EQ(divergence["same_top"]["value"], 0.875);
  EXPECT_EQ(divergence["rms_probability_difference"]["value"], 0.0625);
  const auto alone = nlohmann::json::parse(PerplexityJson(Report(), {}));
  EXPECT_FALSE(alone.contains("base_perplexity"));
  EXPECT_FALSE(alone.contains("kl_divergence"));
}

}  // namespace
}  // namespace baton::cli
