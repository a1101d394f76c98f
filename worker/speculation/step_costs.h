// What a step of so many rows takes, learned from the steps themselves: the
// kernels make it anything but proportional, and it changes with the context.
#ifndef BATON_WORKER_SPECULATION_STEP_COSTS_H_
#define BATON_WORKER_SPECULATION_STEP_COSTS_H_

#include <array>
#include <cstdint>

namespace baton::worker {

// Thread-compatible.
class StepCosts {
 public:
  // A step of `rows` decode rows over `context` positions in all. Steps of more
  // than kMostRows rows are ignored.
  void Observe(uint32_t rows, uint64_t context, double seconds);
  // Seconds; of shapes that were not seen, from their neighbours: too little
  // rather than too much, so that they are tried. 1 if nothing was seen.
  double Estimate(uint32_t rows, uint64_t context) const;

  // Steps observed since the last one of this shape; a large number if there
  // was none.
  uint64_t Age(uint32_t rows, uint64_t context) const;

  static constexpr uint32_t kMostRows = 128;

 private:
  // Contexts of up to 1,024, 4,096, 16,384, … positions.
  static constexpr uint32_t kBuckets = 8;
  using Costs = std::array<double, kMostRows + 1>;  // by rows; 0 = not seen
  using Turns = std::array<uint64_t, kMostRows + 1>;

  static uint32_t BucketOf(uint64_t context);
  // 0 if the bucket has nothing.
  static double EstimateIn(const Costs& costs, uint32_t rows);

  std::array<Costs, kBuckets> costs_{};
  std::array<Turns, kBuckets> seen_{};  // when last; 0 = never
  uint64_t turn_ = uint64_t{1} << 32;   // so that never is long ago
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_STEP_COSTS_H_
