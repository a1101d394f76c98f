// From the samples of a benchmark to its numbers. Pure.
#ifndef BATON_SERVICES_CLI_BENCH_REPORT_H_
#define BATON_SERVICES_CLI_BENCH_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace baton::cli {

// One request, as the client saw it. Times in seconds.
struct RequestSample {
  std::string error;  // status name; empty = answered
  double first_token = 0;
  double total = 0;
  double late = 0;  // open loop: start after its arrival time
  // Gap before each token but the first; tokens that came together share it.
  std::vector<double> gaps;
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;
  uint32_t completion_tokens = 0;
};

struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

struct BenchReport {
  uint32_t requests = 0;
  uint32_t answered = 0;
  std::map<std::string, uint32_t> errors;
  double wall = 0;  // seconds, first start to last end
  Distribution first_token;
  Distribution inter_token;
  Distribution total;
  Distribution late;
  Distribution tokens_per_second;  // of each answer, after its first token
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t completion_tokens = 0;
};

// Nearest rank: the value at or below which `percent` of the values lie; 0 if
// there are none.
double Percentile(std::vector<double> values, double percent);

BenchReport Summarise(const std::vector<RequestSample>& samples, double wall);

// What a benchmark shows while it runs.
struct BenchProgress {
  uint32_t requests = 0;
  uint32_t ended = 0;  // answered or failed
  uint32_t failed = 0;
  uint64_t tokens = 0;  // generated so far, of running answers too
  double seconds = 0;   // since the start
};
// "12 of 32 requests, 1 failed, 640 tokens, 41.0 tokens/s", without a newline.
std::string ProgressText(const BenchProgress& progress);

std::string ReportTable(const BenchReport& report);
// `settings`: what the load was, repeated under "settings".
std::string ReportJson(const BenchReport& report,
                       const std::map<std::string, std::string>& settings);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BENCH_REPORT_H_
