// Rotary positions: the angles against long double, the rotation against
// double, every form against the scalar one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "worker/kernels/rows/rope.h"
#include "worker/kernels/rows/rows.h"

namespace baton::worker {
namespace {

using Values = std::vector<float>;

bool SameBits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Values Normal(size_t count, std::mt19937* random) {
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

void ExpectNearLongDouble(double angle) {
  const SineCosine result = SineAndCosine(angle);
  const long double sine = std::sin(static_cast<long double>(angle));
  const long double cosine = std::cos(static_cast<long double>(angle));
  ASSERT_LE(std::fabs(result.sine - sine), 1e-13L * std::fabs(sine) + 1e-23L)
      << angle;
  ASSERT_LE(std::fabs(result.cosine - cosine),
            1e-13L * std::fabs(cosine) + 1e-23L)
      << angle;
}

TEST(SineAndCosine, HoldTheirErrorUpToLargeAngles) {
  std::mt19937_64 random(1);
  for (const double largest : {1e-3, 1.0, 100.0, 1e6, 0x1p31}) {
    std::uniform_real_distribution<double> uniform(-largest, largest);
    for (int i = 0; i < 20000; ++i) ExpectNearLongDouble(uniform(random));
  }
  // Whole numbers and the neighbours of multiples of pi / 2, where one of the
  // two is small.
  for (int i = 0; i <= 1000000; i += 7) {
    ExpectNearLongDouble(i);
    ExpectNearLongDouble(i * 1.57079632679489662);
  }
  EXPECT_EQ(SineAndCosine(0).sine, 0);
  EXPECT_EQ(SineAndCosine(0).cosine, 1);
}

TEST(SineAndCosine, AreNoNumbersBeyondTheirRange) {
  for (const double angle :
       {0x1p32, -1e300, std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(SineAndCosine(angle).sine));
    EXPECT_TRUE(std::isnan(SineAndCosine(angle).cosine));
  }
}

struct Rope {
  size_t dimensions = 0;
  float base = 0;
  float scale = 1;
  std::vector<float> factors;
};
std::vector<Rope> Ropes() {
  std::vector<Rope> ropes = {
      {64, 10000.0f}, {128, 1e6f}, {80, 500000.0f, 0.25f},
      {2, 10000.0f},  {100, 1.5f}, {64, 500000.0f}};
  for (int i = 0; i < 32; ++i) {  // as Llama 3.1's
    ropes.back().factors.push_back(i < 12 ? 1.0f : i < 20 ? 2.7f : 32.0f);
  }
  return ropes;
}

// The rounding to float, half a last place of [1/2, 1), and 1e-9.
TEST(RopeTable, IsTheRoundedExactValueUpToAMillionPositions) {
  constexpr long double kBound = 0x1p-25L + 1e-9L;
  std::mt19937 random(2);
  for (const Rope& rope : Ropes()) {
    const auto frequencies =
        RopeFrequencies(rope.dimensions, rope.base, rope.scale, rope.factors);
    ASSERT_EQ(frequencies.size(), rope.dimensions / 2);
    Values table(2 * rope.dimensions);
    for (int step = 0; step < 300; ++step) {
      const int32_t position =
          step < 3 ? step : static_cast<int32_t>(random() % 1000001);
      FillRopeRow(frequencies, RopePairs::kHalves, position, table.data());
      for (size_t i = 0; i < rope.dimensions; ++i) {
        const size_t pair = i % (rope.dimensions / 2);
        const long double factor =
            rope.factors.empty() ? 1.0f : rope.factors[pair];
        const long double angle =
            position * static_cast<long double>(rope.scale) / factor *
            std::pow(static_cast<long double>(rope.base),
                     -2.0L * static_cast<long double>(pair) /
                         static_cast<long double>(rope.dimensions));
        const long double sine =
            i < rope.dimensions / 2 ? -std::sin(angle) : std::sin(angle);
        ASSERT_LE(std::fabs(table[i] - std::cos(angle)), kBound)
            << position << " " << i;
        ASSERT_LE(std::fabs(table[rope.dimensions + i] - sine), kBound)
            << position << " " << i;
      }
    }
  }
}

TEST(RopeTable, HasItsPairsWhereTheyAreTurned) {
  const auto frequencies = RopeFrequencies(6, 10000.0f, 1, {});
  Values halves(12), adjacent(12);
  FillRopeRow(frequencies, RopePairs::kHalves, 5, halves.data());
  FillRopeRow(frequencies, RopePairs::kAdjacent, 5, adjacent.data());
  for (size_t pair = 0; pair < 3; ++pair) {
    for (size_t offset : {0, 6}) {
      EXPECT_EQ(adjacent[offset + 2 * pair], halves[offset + pair]);
      EXPECT_EQ(adjacent[offset + 2 * pair + 1], halves[offset + pair + 3]);
    }
  }
}

Values Rotate(KernelForm form, RopePairs pairs, const Values& x,
              const Values& table, const HeadShape& shape, int threads) {
  Values out(x.size());
  for (int thread = 0; thread < threads; ++thread) {
    RotateRows(RowFormsOf(form), pairs, x.data(), table.data(), shape,
               out.data(), thread, threads);
  }
  return out;
}

Values Table(const std::vector<double>& frequencies, RopePairs pairs,
             size_t rows) {
  Values table(rows * 4 * frequencies.size());
  for (size_t row = 0; row < rows; ++row) {
    FillRopeRow(frequencies, pairs, static_cast<int32_t>(row * 37),
                table.data() + row * 4 * frequencies.size());
  }
  return table;
}

class Rotation : public testing::TestWithParam<RopePairs> {};

// Half a rounding of a table entry, one of a product, one of the result.
TEST_P(Rotation, IsNearTheExactOneInEveryForm) {
  std::mt19937 random(3);
  for (const size_t head_dim : {16, 64, 80, 128, 256}) {
    for (const size_t dimensions : {head_dim, head_dim / 2, size_t{10}}) {
      const HeadShape shape{4, 3, head_dim, dimensions};
      const auto frequencies = RopeFrequencies(dimensions, 10000.0f, 1, {});
      const Values table = Table(frequencies, GetParam(), shape.rows);
      const Values x = Normal(shape.rows * shape.heads * head_dim, &random);
      const Values out =
          Rotate(KernelForm::kScalar, GetParam(), x, table, shape, 1);
      for (size_t at = 0; at < x.size(); ++at) {
        const size_t row = at / (shape.heads * head_dim), i = at % head_dim;
        if (i >= dimensions) {
          ASSERT_EQ(out[at], x[at]);
          continue;
        }
        const bool adjacent = GetParam() == RopePairs::kAdjacent;
        const size_t half = dimensions / 2;
        const size_t pair = adjacent ? i / 2 : i % half;
        const bool first = adjacent ? i % 2 == 0 : i < half;
        const size_t step = adjacent ? 1 : half;
        const double partner = first ? x[at + step] : x[at - step];
        const double angle = static_cast<double>(row) * 37 * frequencies[pair];
        const double exact = x[at] * std::cos(angle) +
                             (first ? -partner : partner) * std::sin(angle);
        ASSERT_LE(std::fabs(out[at] - exact),
                  2.5 * 0x1p-24 * (std::fabs(x[at]) + std::fabs(partner)));
      }
      for (int form = 1; form <= static_cast<int>(BestKernelForm()); ++form) {
        for (const int threads : {1, 3}) {
          EXPECT_TRUE(SameBits(Rotate(static_cast<KernelForm>(form), GetParam(),
                                      x, table, shape, threads),
                               out));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pairs, Rotation, testing::Values(RopePairs::kAdjacent, RopePairs::kHalves),
    [](const auto& info) {
      return info.param == RopePairs::kAdjacent ? "Adjacent" : "Halves";
    });

}  // namespace
}  // namespace baton::worker
