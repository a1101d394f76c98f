#include "worker/speculation/step_costs.h"

#include <algorithm>

namespace baton::worker {
namespace {

// Weight of a new observation. One that is far off is another process's doing
// more often than a change, and counts as at most this much off.
constexpr double kNew = 0.1;
constexpr double kMostOff = 1.5;
// What a further row is thought to cost, as a share, until it was seen.
constexpr double kUnseenRow = 0.05;

}  // namespace

uint32_t StepCosts::BucketOf(uint64_t context) {
  uint32_t bucket = 0;
  for (uint64_t edge = 1024; context > edge && bucket + 1 < kBuckets;
       edge *= 4) {
    ++bucket;
  }
  return bucket;
}

void StepCosts::Observe(uint32_t rows, uint64_t context, double seconds) {
  if (rows == 0 || rows > kMostRows || !(seconds > 0)) return;
  const uint32_t bucket = BucketOf(context);
  seen_[bucket][rows] = ++turn_;
  double& cost = costs_[bucket][rows];
  if (cost == 0) {
    cost = seconds;
    return;
  }
  const double near = std::clamp(seconds, cost / kMostOff, cost * kMostOff);
  cost += kNew * (near - cost);
}

uint64_t StepCosts::Age(uint32_t rows, uint64_t context) const {
  return turn_ - seen_[BucketOf(context)][std::min(rows, kMostRows)];
}

double StepCosts::EstimateIn(const Costs& costs, uint32_t rows) {
  rows = std::min(rows, kMostRows);
  if (costs[rows] > 0) return costs[rows];
  uint32_t below = rows, above = rows;
  while (below > 0 && costs[below] == 0) --below;
  while (above <= kMostRows && costs[above] == 0) ++above;
  const bool has_above = above <= kMostRows;
  if (below == 0) return has_above ? costs[above] : 0;
  const double further = costs[below] * (1 + kUnseenRow * (rows - below));
  if (!has_above) return further;
  const double between = costs[below] + (costs[above] - costs[below]) *
                                            (rows - below) / (above - below);
  return std::min(further, between);
}

double StepCosts::Estimate(uint32_t rows, uint64_t context) const {
  const uint32_t own = BucketOf(context);
  for (uint32_t distance = 0; distance < kBuckets; ++distance) {
    for (const int64_t at :
         {int64_t{own} - distance, int64_t{own} + distance}) {
      if (at < 0 || at >= kBuckets) continue;
      const double cost = EstimateIn(costs_[static_cast<size_t>(at)], rows);
      if (cost > 0) return cost;
    }
  }
  return 1 + kUnseenRow * (rows - 1.0);
}

}  // namespace baton::worker
