#include "services/cli/perplexity_report.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_format.h"
#include "services/cli/base/table.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;
using worker::Estimate;

double TokensPerSecond(const PerplexityReport& report) {
  const double tokens = static_cast<double>(report.chunks) * report.context;
  return report.seconds > 0 ? tokens / report.seconds : 0;
}

std::vector<std::string> Row(const std::string& name, const Estimate& estimate,
                             double scale = 1) {
  return {name, absl::StrFormat("%.6f", estimate.value * scale), "±",
          absl::StrFormat("%.6f", estimate.standard_error * scale)};
}

std::vector<std::string> Row(const std::string& name, double value) {
  return {name, absl::StrFormat("%.6f", value)};
}

Json ToJson(const Estimate& estimate) {
  return {{"value", estimate.value},
          {"standard_error", estimate.standard_error}};
}

Json ToJson(const worker::DivergenceReport& divergence) {
  return {{"unit", "nats"},
          {"mean_kld", ToJson(divergence.mean_kld)},
          {"median_kld", divergence.median_kld},
          {"kld_99", divergence.kld_99},
          {"largest_kld", divergence.largest_kld},
          {"same_top", ToJson(divergence.same_top)},
          {"rms_probability_difference",
           ToJson(divergence.rms_probability_difference)}};
}

}  // namespace

std::string PerplexityTable(const PerplexityReport& report) {
  std::vector<std::vector<std::string>> rows = {
      Row("PPL", worker::PerplexityOf(report.nll)),
      Row("Mean NLL (nats)", report.nll)};
  if (report.base.has_value()) {
    const worker::DivergenceReport& divergence = report.base->divergence;
    constexpr double kPercent = 100;
    rows.push_back(Row("PPL(base)", worker::PerplexityOf(report.base->nll)));
    rows.push_back(Row("Mean NLL(base) (nats)", report.base->nll));
    rows.push_back(Row("Mean KLD (nats)", divergence.mean_kld));
    rows.push_back(Row("Maximum KLD", divergence.largest_kld));
    rows.push_back(Row("99.0% KLD", divergence.kld_99));
    rows.push_back(Row("Median KLD", divergence.median_kld));
    rows.push_back(
        Row("RMS Δp (%)", divergence.rms_probability_difference, kPercent));
    rows.push_back(Row("Same top p (%)", divergence.same_top, kPercent));
  }
  std::string out = RenderTable(rows, true);
  absl::StrAppendFormat(
      &out,
      "\n%d chunk%s of %d tokens, %d tokens scored, %.1f s: %.1f tokens/s\n",
      report.chunks, report.chunks == 1 ? "" : "s", report.context,
      report.positions, report.seconds, TokensPerSecond(report));
  return out;
}

std::string PerplexityJson(const PerplexityReport& report,
                           const std::map<std::string, std::string>& settings) {
  Json json;
  json["settings"] = settings;
  json["context"] = report.context;
  json["chunks"] = report.chunks;
  json["scored_tokens"] = report.positions;
  json["seconds"] = report.seconds;
  json["tokens_per_second"] = TokensPerSecond(report);
  json["perplexity"] = ToJson(worker::PerplexityOf(report.nll));
  json["mean_nll"] = ToJson(report.nll);
  if (report.base.has_value()) {
    json["base_perplexity"] = ToJson(worker::PerplexityOf(report.base->nll));
    json["base_mean_nll"] = ToJson(report.base->nll);
    json["kl_divergence"] = ToJson(report.base->divergence);
  }
  return json.dump(2) + "\n";
}

}  // namespace baton::cli
