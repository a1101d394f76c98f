// What `baton perplexity` prints and writes. Pure.
#ifndef BATON_SERVICES_CLI_PERPLEXITY_REPORT_H_
#define BATON_SERVICES_CLI_PERPLEXITY_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "worker/perplexity/statistics.h"

namespace baton::cli {

struct PerplexityReport {
  uint32_t context = 0;
  uint32_t chunks = 0;
  uint64_t positions = 0;  // scored
  double seconds = 0;      // of the forward passes and the scoring
  worker::Estimate nll;    // nats
  struct Base {
    worker::Estimate nll;
    worker::DivergenceReport divergence;
  };
  std::optional<Base> base;
};

std::string PerplexityTable(const PerplexityReport& report);

// `settings`: the options of the run, by name.
std::string PerplexityJson(const PerplexityReport& report,
                           const std::map<std::string, std::string>& settings);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_PERPLEXITY_REPORT_H_
