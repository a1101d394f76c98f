// The figures of a perplexity run, from the scores of its positions, under the
// names and by the formulas that llama.cpp's llama-perplexity reports. Values;
// thread-compatible.
#ifndef BATON_WORKER_PERPLEXITY_STATISTICS_H_
#define BATON_WORKER_PERPLEXITY_STATISTICS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/perplexity/position.h"

namespace baton::worker {

struct Estimate {
  double value = 0;
  double standard_error = 0;
};

// The mean of values that come one at a time (Welford's recurrence).
class RunningMean {
 public:
  void Add(double value);
  uint64_t count() const { return count_; }
  // The error is sqrt((E[x^2] - E[x]^2) / (count - 1)), 0 below two values.
  Estimate estimate() const;

 private:
  uint64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // of the distances from the mean, summed
};

// e to the mean negative log-likelihood, in nats, and its error.
Estimate PerplexityOf(const Estimate& mean_nll);

struct DivergenceReport {
  Estimate mean_kld;  // nats
  double median_kld = 0;
  double kld_99 = 0;  // 99 % of positions are at or below
  double largest_kld = 0;
  Estimate same_top;                    // share of positions, 0..1
  Estimate rms_probability_difference;  // root of the mean square, 0..1
};

// Keeps 8 bytes a position, for the percentiles.
class DivergenceStatistics {
 public:
  void Add(const PositionDivergence& position);
  // All 0 before the first position.
  DivergenceReport Report() const;

 private:
  std::vector<double> klds_;
  RunningMean kld_;
  RunningMean same_top_;
  RunningMean squared_difference_;
};

// Between the two nearest of `sorted` (ascending, at least one value), by
// linear interpolation at rank fraction * (size - 1). fraction: 0..1.
double Percentile(std::span<const double> sorted, double fraction);

}  // namespace baton::worker

#endif  // BATON_WORKER_PERPLEXITY_STATISTICS_H_
