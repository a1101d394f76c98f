#include "worker/perplexity/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace baton::worker {
namespace {

// Of sqrt(x), from those of x, to first order.
Estimate SquareRoot(const Estimate& x) {
  const double root = std::sqrt(x.value);
  return {root, root > 0 ? x.standard_error / (2 * root) : 0};
}

}  // namespace

void RunningMean::Add(double value) {
  ++count_;
  const double before = value - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (value - mean_);
}

Estimate RunningMean::estimate() const {
  if (count_ < 2) return {mean_, 0};
  const auto count = static_cast<double>(count_);
  return {mean_, std::sqrt(squares_ / count / (count - 1))};
}

Estimate PerplexityOf(const Estimate& mean_nll) {
  const double perplexity = std::exp(mean_nll.value);
  return {perplexity, perplexity * mean_nll.standard_error};
}

void DivergenceStatistics::Add(const PositionDivergence& position) {
  klds_.push_back(position.kld);
  kld_.Add(position.kld);
  same_top_.Add(position.same_top ? 1 : 0);
  squared_difference_.Add(position.probability_difference *
                          position.probability_difference);
}

DivergenceReport DivergenceStatistics::Report() const {
  DivergenceReport report;
  if (klds_.empty()) return report;
  std::vector<double> sorted = klds_;
  std::sort(sorted.begin(), sorted.end());
  report.mean_kld = kld_.estimate();
  report.median_kld = Percentile(sorted, 0.5);
  report.kld_99 = Percentile(sorted, 0.99);
  report.largest_kld = sorted.back();
  report.same_top = same_top_.estimate();
  report.rms_probability_difference =
      SquareRoot(squared_difference_.estimate());
  return report;
}

double Percentile(std::span<const double> sorted, double fraction) {
  const double rank = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = rank - static_cast<double>(below);
  return (1 - part) * sorted[below] + part * sorted[above];
}

}  // namespace baton::worker
