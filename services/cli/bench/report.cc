#include "services/cli/bench/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/cli/base/table.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

Distribution Describe(const std::vector<double>& values) {
  Distribution out;
  if (values.empty()) return out;
  for (double value : values) out.mean += value;
  out.mean /= static_cast<double>(values.size());
  out.p50 = Percentile(values, 50);
  out.p90 = Percentile(values, 90);
  out.p99 = Percentile(values, 99);
  return out;
}

double PerSecond(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double Share(uint64_t part, uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::vector<std::string> Row(const std::string& name, const Distribution& d,
                             double scale) {
  const auto cell = [scale](double value) {
    return absl::StrFormat("%.1f", value * scale);
  };
  return {name, cell(d.mean), cell(d.p50), cell(d.p90), cell(d.p99)};
}

Json ToJson(const Distribution& d, const char* unit, double scale) {
  return {{"unit", unit},
          {"avg", d.mean * scale},
          {"p50", d.p50 * scale},
          {"p90", d.p90 * scale},
          {"p99", d.p99 * scale}};
}

}  // namespace

double Percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank =
      std::ceil(percent / 100 * static_cast<double>(values.size()));
  const size_t index = static_cast<size_t>(std::max(1.0, rank)) - 1;
  return values[std::min(index, values.size() - 1)];
}

BenchReport Summarise(const std::vector<RequestSample>& samples, double wall) {
  BenchReport report;
  report.requests = static_cast<uint32_t>(samples.size());
  report.wall = wall;
  std::vector<double> first, gaps, total, late, rates;
  for (const RequestSample& sample : samples) {
    if (!sample.error.empty()) {
      ++report.errors[sample.error];
      continue;
    }
    ++report.answered;
    first.push_back(sample.first_token);
    total.push_back(sample.total);
    late.push_back(sample.late);
    gaps.insert(gaps.end(), sample.gaps.begin(), sample.gaps.end());
    const double after_first = sample.total - sample.first_token;
    if (sample.completion_tokens > 1 && after_first > 0) {
      rates.push_back((sample.completion_tokens - 1) / after_first);
    }
    report.prompt_tokens += sample.prompt_tokens;
    report.cached_tokens += sample.cached_tokens;
    report.completion_tokens += sample.completion_tokens;
  }
  report.first_token = Describe(first);
  report.inter_token = Describe(gaps);
  report.total = Describe(total);
  report.late = Describe(late);
  report.tokens_per_second = Describe(rates);
  return report;
}

std::string ProgressText(const BenchProgress& progress) {
  return absl::StrFormat(
      "%d of %d requests%s, %d tokens, %.1f tokens/s", progress.ended,
      progress.requests,
      progress.failed > 0 ? absl::StrCat(", ", progress.failed, " failed") : "",
      progress.tokens, PerSecond(progress.tokens, progress.seconds));
}

std::string ReportTable(const BenchReport& report) {
  std::string out =
      RenderTable({{"", "mean", "p50", "p90", "p99"},
                   Row("time to first token (ms)", report.first_token, 1000),
                   Row("inter-token latency (ms)", report.inter_token, 1000),
                   Row("end to end (ms)", report.total, 1000),
                   Row("tokens/s of an answer", report.tokens_per_second, 1),
                   Row("started late (ms)", report.late, 1000)},
                  true);
  absl::StrAppendFormat(
      &out, "\n%d of %d requests answered in %.2f s: %.2f requests/s\n",
      report.answered, report.requests, report.wall,
      PerSecond(report.answered, report.wall));
  absl::StrAppendFormat(&out,
                        "prompt: %d tokens, %.1f a request with the chat "
                        "template, %.1f %% cached\n"
                        "generated: %d tokens, %.1f tokens/s\n",
                        report.prompt_tokens,
                        Share(report.prompt_tokens, report.answered),
                        100 * Share(report.cached_tokens, report.prompt_tokens),
                        report.completion_tokens,
                        PerSecond(report.completion_tokens, report.wall));
  for (const auto& [error, count] : report.errors) {
    absl::StrAppend(&out, "failed: ", count, " ", error, "\n");
  }
  return out;
}

std::string ReportJson(const BenchReport& report,
                       const std::map<std::string, std::string>& settings) {
  Json json;
  json["settings"] = settings;
  json["request_count"] = report.answered;
  json["error_count"] = report.requests - report.answered;
  json["errors"] = report.errors;
  json["benchmark_duration"] = {{"unit", "sec"}, {"avg", report.wall}};
  json["time_to_first_token"] = ToJson(report.first_token, "ms", 1000);
  json["inter_token_latency"] = ToJson(report.inter_token, "ms", 1000);
  json["request_latency"] = ToJson(report.total, "ms", 1000);
  json["start_delay"] = ToJson(report.late, "ms", 1000);
  json["output_token_throughput_per_user"] =
      ToJson(report.tokens_per_second, "tokens/sec/user", 1);
  json["output_token_throughput"] = {
      {"unit", "tokens/sec"},
      {"avg", PerSecond(report.completion_tokens, report.wall)}};
  json["request_throughput"] = {
      {"unit", "requests/sec"},
      {"avg", PerSecond(report.answered, report.wall)}};
  // With what the chat template adds, unlike settings.prompt_tokens.
  json["input_sequence_length"] = {
      {"unit", "tokens"},
      {"avg", Share(report.prompt_tokens, report.answered)}};
  json["total_isl"] = report.prompt_tokens;
  json["total_osl"] = report.completion_tokens;
  json["cached_share"] = Share(report.cached_tokens, report.prompt_tokens);
  return json.dump(2) + "\n";
}

}  // namespace baton::cli
