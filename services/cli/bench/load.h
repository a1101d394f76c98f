// What a benchmark sends and when: prompts of fixed words and arrival times,
// both pure functions of the seed.
#ifndef BATON_SERVICES_CLI_BENCH_LOAD_H_
#define BATON_SERVICES_CLI_BENCH_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace baton::cli {

// `shared_words` words that are the same for every request of the seed, then
// words of this request alone.
std::string MakePrompt(uint64_t seed, uint32_t request, uint32_t words,
                       uint32_t shared_words);

// The lines of a file that are not empty. Errors: kNotFound or kUnavailable
// with the system's reason, kInvalidArgument if there is no such line.
absl::StatusOr<std::vector<std::string>> ReadPromptFile(
    const std::string& path);

// Poisson arrivals: times from the start, ascending, with exponential gaps of
// mean 1/rate. `rate` > 0, requests a second.
std::vector<absl::Duration> PoissonArrivals(uint64_t seed, double rate,
                                            uint32_t requests);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BENCH_LOAD_H_
