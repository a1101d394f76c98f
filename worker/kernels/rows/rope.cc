#include "worker/kernels/rows/rope.h"

#include <cmath>

namespace baton::worker {
namespace {

// The nearest integer, ties to even, of |x| < 2^51.
double RoundToInteger(double x) {
  constexpr double kShift = 0x1.8p52;
  const double shifted = x + kShift;
  return shifted - kShift;
}

// ln 2 and pi / 2 in two parts each: the double nearest, and what it lacks.
constexpr double kLn2High = 0x1.62e42fefa39efp-1;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// Beyond it, float tables have lost the position anyway.
constexpr double kLargestAngle = 0x1p31;

// ln x for positive, finite x: x = 2^e m with m in [sqrt 1/2, sqrt 2), and
// ln m = 2 artanh((m - 1) / (m + 1)) by its series.
double Log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) {
    series = std::fma(series, square, 1.0 / k);
  }
  const double e = exponent;
  return std::fma(e, kLn2High, std::fma(e, kLn2Low, 2 * s * series));
}

// exp x for |x| < 700, by Taylor's series on [-ln 2 / 2, ln 2 / 2].
double Exp(double x) {
  const double n = RoundToInteger(x * (1 / kLn2High));
  const double r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));
  double series = 1;
  for (int k = 16; k >= 1; --k) series = std::fma(series, r / k, 1.0);
  return std::ldexp(series, static_cast<int>(n));
}

// Taylor's series on [-pi / 4, pi / 4]; the first term left out is below
// 3e-14.
double SineSeries(double r) {
  const double square = r * r;
  double series = 1.0 / 6227020800;
  series = std::fma(series, square, -1.0 / 39916800);
  series = std::fma(series, square, 1.0 / 362880);
  series = std::fma(series, square, -1.0 / 5040);
  series = std::fma(series, square, 1.0 / 120);
  series = std::fma(series, square, -1.0 / 6);
  return std::fma(series * square, r, r);
}
double CosineSeries(double r) {
  const double square = r * r;
  double series = -1.0 / 87178291200;
  series = std::fma(series, square, 1.0 / 479001600);
  series = std::fma(series, square, -1.0 / 3628800);
  series = std::fma(series, square, 1.0 / 40320);
  series = std::fma(series, square, -1.0 / 720);
  series = std::fma(series, square, 1.0 / 24);
  series = std::fma(series, square, -0.5);
  return std::fma(series, square, 1.0);
}

}  // namespace

SineCosine SineAndCosine(double angle) {
  if (!(std::fabs(angle) <= kLargestAngle)) return {NAN, NAN};
  const double n = RoundToInteger(angle * kTwoOverPi);
  // The first difference is exact: its bits end where those of pi / 2 do.
  const double r = std::fma(-n, kHalfPiLow, std::fma(-n, kHalfPiHigh, angle));
  const double sine = SineSeries(r), cosine = CosineSeries(r);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

std::vector<double> RopeFrequencies(size_t dimensions, float base,
                                    float position_scale,
                                    std::span<const float> factors) {
  std::vector<double> frequencies(dimensions / 2);
  const double log_base = Log(base);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double share =
        static_cast<double>(2 * i) / static_cast<double>(dimensions);
    const double factor = factors.empty() ? 1.0 : factors[i];
    frequencies[i] = Exp(-share * log_base) * position_scale / factor;
  }
  return frequencies;
}

void FillRopeRow(std::span<const double> frequencies, RopePairs pairs,
                 int32_t position, float* table) {
  const size_t half = frequencies.size();
  float* cosines = table;
  float* sines = table + 2 * half;
  for (size_t i = 0; i < half; ++i) {
    const SineCosine angle = SineAndCosine(position * frequencies[i]);
    const size_t first = pairs == RopePairs::kAdjacent ? 2 * i : i;
    const size_t second = pairs == RopePairs::kAdjacent ? first + 1 : i + half;
    const float cosine = static_cast<float>(angle.cosine);
    const float sine = static_cast<float>(angle.sine);
    cosines[first] = cosines[second] = cosine;
    sines[first] = -sine;
    sines[second] = sine;
  }
}

}  // namespace baton::worker
