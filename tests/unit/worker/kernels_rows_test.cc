// The row operations: every form gives the bits of the scalar one, the scalar
// one is near the same in double precision, and a row depends on neither its
// neighbours nor the threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "worker/kernels/rows/rows.h"

namespace baton::worker {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr double kRounding = 0x1p-24;  // largest relative error of one

// Odd ones, head sizes, widths of models.
constexpr size_t kWidths[] = {1,  2,  7,   8,   15,  16,  17,  31,
                              64, 80, 100, 128, 256, 576, 1536};

using Values = std::vector<float>;

std::vector<KernelForm> VectorForms() {
  std::vector<KernelForm> forms;
  for (int form = 1; form <= static_cast<int>(BestKernelForm()); ++form) {
    forms.push_back(static_cast<KernelForm>(form));
  }
  return forms;
}

// Equal bits, or both no number.
testing::AssertionResult SameBits(const Values& a, const Values& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return testing::AssertionFailure()
             << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

Values Normal(size_t count, float deviation, std::mt19937* random) {
  std::normal_distribution<float> normal(0, deviation);
  Values values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

// Rows of every kind that floats have.
std::vector<Values> Rows(size_t count, std::mt19937* random) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Values> rows = {
      Normal(count, 1, random),     Normal(count, 40, random),
      Normal(count, 1e37f, random), Normal(count, 1e-41f, random),
      Values(count, 0.0f),          Values(count, -0.0f)};
  for (const float odd : {inf, -inf, nan, 3e38f, -1e-45f}) {
    rows.push_back(Normal(count, 3, random));
    rows.back()[(*random)() % count] = odd;
  }
  // Every pattern of bits.
  rows.emplace_back(count);
  for (float& value : rows.back()) {
    const uint32_t bits = static_cast<uint32_t>((*random)());
    std::memcpy(&value, &bits, sizeof(value));
  }
  return rows;
}

// The operations on rows of two inputs, as they are all called.
struct Operation {
  std::string name;
  std::function<void(const RowForms&, const float* a, const float* b,
                     const RowShape&, float* out, int thread, int threads)>
      run;
};
std::vector<Operation> Operations() {
  return {{"RmsNorm",
           [](const RowForms& forms, const float* a, const float* b,
              const RowShape& shape, float* out, int thread, int threads) {
             RmsNormRows(forms, a, b, shape, kEpsilon, out, thread, threads);
           }},
          {"Add", AddRows},
          {"AddBias", AddBias},
          {"SwiGlu", SwiGluRows}};
}

Values Compute(const Operation& operation, KernelForm form, const Values& a,
               const Values& b, size_t rows, int threads = 1) {
  const RowShape shape{a.size() / rows, rows};
  Values out(a.size() + 1, 77.0f);
  for (int thread = 0; thread < threads; ++thread) {
    operation.run(RowFormsOf(form), a.data(), b.data(), shape, out.data(),
                  thread, threads);
  }
  EXPECT_EQ(out.back(), 77.0f) << "written beyond the end";
  out.pop_back();
  return out;
}

class RowOperation : public testing::TestWithParam<Operation> {};

TEST_P(RowOperation, EveryFormGivesTheBitsOfTheScalarOne) {
  std::mt19937 random(1);
  for (const size_t width : kWidths) {
    const std::vector<Values> rows = Rows(width, &random);
    for (const Values& a : rows) {
      for (const Values& b : rows) {
        const Values expected =
            Compute(GetParam(), KernelForm::kScalar, a, b, 1);
        for (const KernelForm form : VectorForms()) {
          ASSERT_TRUE(SameBits(Compute(GetParam(), form, a, b, 1), expected))
              << KernelFormName(form) << ", " << width << " columns";
        }
      }
    }
  }
}

// Also where a neighbour has what is no number.
TEST_P(RowOperation, ARowDependsOnNeitherNeighboursNorThreads) {
  std::mt19937 random(2);
  const size_t width = 100;
  const std::vector<Values> kinds = Rows(width, &random);
  Values a, b;
  for (const Values& row : kinds) {
    a.insert(a.end(), row.begin(), row.end());
    const Values other = Normal(width, 1, &random);
    b.insert(b.end(), other.begin(), other.end());
  }
  for (const int threads : {1, 2, 3, 50}) {
    const Values whole =
        Compute(GetParam(), BestKernelForm(), a, b, kinds.size(), threads);
    for (size_t row = 0; row < kinds.size(); ++row) {
      const auto at = static_cast<ptrdiff_t>(row * width);
      const auto end = at + static_cast<ptrdiff_t>(width);
      // One weight or bias serves all rows.
      const bool shared =
          GetParam().name == "RmsNorm" || GetParam().name == "AddBias";
      const Values alone =
          Compute(GetParam(), BestKernelForm(), kinds[row],
                  shared ? b : Values(b.begin() + at, b.begin() + end), 1);
      EXPECT_TRUE(
          SameBits(Values(whole.begin() + at, whole.begin() + end), alone))
          << "row " << row << ", " << threads << " threads";
    }
  }
}

TEST_P(RowOperation, WhatIsNoNumberStaysVisible) {
  std::mt19937 random(3);
  for (const size_t at : {size_t{0}, size_t{40}, size_t{99}}) {
    Values a = Normal(100, 1, &random);
    a[at] = std::numeric_limits<float>::quiet_NaN();
    const Values b = Normal(100, 1, &random);
    for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
      const Values out =
          Compute(GetParam(), static_cast<KernelForm>(form), a, b, 1);
      EXPECT_TRUE(std::isnan(out[at]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, RowOperation,
                         testing::ValuesIn(Operations()),
                         [](const auto& info) { return info.param.name; });

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The largest value of (*row)[at] in [0, most] for which the scalar norm's
// first element is what it is at 0; left in the row. The next float changes it.
void RaiseToTheEdge(Values* row, size_t at, float most) {
  const Values weight(row->size(), 1.0f);
  const auto first = [&](float value) {
    (*row)[at] = value;
    return Compute(Operations()[0], KernelForm::kScalar, *row, weight, 1)[0];
  };
  const float unchanged = first(0);
  uint32_t low = 0, high;
  std::memcpy(&high, &most, sizeof(high));
  ASSERT_NE(first(most), unchanged);
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (first(FromBits(middle)) == unchanged ? low : high) = middle;
  }
  (*row)[at] = FromBits(low);
}

// Rounding the scale to float hides the order of additions in double, but for
// rows at the edge between two scales: there the last bit of the sum decides.
TEST(RmsNormRows, EveryFormAddsTheSquaresInTheSameOrder) {
  std::mt19937 random(6);
  const size_t width = 48;
  const Values weight(width, 1.0f);
  for (int i = 0; i < 64; ++i) {
    Values row = Normal(width, 1, &random);
    row[width - 2] = 0;
    ASSERT_NO_FATAL_FAILURE(RaiseToTheEdge(&row, width - 1, 0.1f));
    // What a last place of that one's square is too coarse for.
    ASSERT_NO_FATAL_FAILURE(RaiseToTheEdge(&row, width - 2, 1e-4f));
    for (const bool beyond : {false, true}) {
      float& last = row[width - 2];
      if (beyond) last = std::nextafter(last, 1.0f);
      const Values expected =
          Compute(Operations()[0], KernelForm::kScalar, row, weight, 1);
      for (const KernelForm form : VectorForms()) {
        ASSERT_TRUE(
            SameBits(Compute(Operations()[0], form, row, weight, 1), expected))
            << KernelFormName(form);
      }
    }
  }
}

// Three roundings: of the scale and of two products. The sum in double adds
// less than a thousandth of one.
TEST(RmsNormRows, IsNearTheExactNorm) {
  std::mt19937 random(4);
  for (const size_t width : kWidths) {
    for (const float deviation : {1e-6f, 1.0f, 3e4f, 1e30f}) {
      const Values x = Normal(width, deviation, &random);
      const Values weight = Normal(width, 1, &random);
      const Values out =
          Compute(Operations()[0], KernelForm::kScalar, x, weight, 1);
      long double squares = 0;
      for (const float value : x) {
        squares += static_cast<long double>(value) * value;
      }
      const long double root =
          std::sqrt(squares / static_cast<long double>(width) + kEpsilon);
      for (size_t i = 0; i < width; ++i) {
        const double exact = static_cast<double>(
            static_cast<long double>(x[i]) * weight[i] / root);
        ASSERT_LE(std::fabs(out[i] - exact),
                  3.01 * kRounding * std::fabs(exact))
            << width << " columns";
      }
    }
  }
}

// The exponential's 2e-7 and four roundings; below -87 the result is zero.
TEST(SwiGluRows, IsNearTheExactGate) {
  double worst = 0;
  for (float g = -86.9f; g < 90; g += 0.00137f) {
    const float up = 1.5f;
    float out;
    SwiGluRows(RowFormsOf(KernelForm::kScalar), &g, &up, {1, 1}, &out, 0, 1);
    const double exact = g / (1 + std::exp(-static_cast<double>(g))) * up;
    worst = std::max(worst, std::fabs((out - exact) / exact));
  }
  EXPECT_LT(worst, 2e-7 + 4 * kRounding);
  EXPECT_GT(worst, 0);
  const float inf = std::numeric_limits<float>::infinity();
  const Values gate = {-88, -1e30f, 0, -0.0f, 1e30f, inf, -inf};
  const Values up(gate.size(), 2.0f);
  Values out(gate.size());
  SwiGluRows(RowFormsOf(KernelForm::kScalar), gate.data(), up.data(),
             {gate.size(), 1}, out.data(), 0, 1);
  EXPECT_TRUE(SameBits(out, {-0.0f, -0.0f, 0, -0.0f, 2e30f, inf,
                             std::numeric_limits<float>::quiet_NaN()}));
}

TEST(AddNormRows, GivesTheBitsOfTheSumAndOfItsNorm) {
  std::mt19937 random(5);
  const RowShape shape{100, 7};
  const Values a = Normal(700, 1, &random), b = Normal(700, 2, &random);
  const Values weight = Normal(100, 1, &random);
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    const RowForms& forms = RowFormsOf(static_cast<KernelForm>(form));
    Values sum(700), normed(700), expected_sum(700), expected(700);
    for (int thread = 0; thread < 3; ++thread) {
      AddNormRows(forms, a.data(), b.data(), weight.data(), shape, kEpsilon,
                  sum.data(), normed.data(), thread, 3);
    }
    AddRows(forms, a.data(), b.data(), shape, expected_sum.data(), 0, 1);
    RmsNormRows(forms, expected_sum.data(), weight.data(), shape, kEpsilon,
                expected.data(), 0, 1);
    EXPECT_TRUE(SameBits(sum, expected_sum));
    EXPECT_TRUE(SameBits(normed, expected));
  }
}

TEST(GatherRows, CopiesTheRowsNamed) {
  const Values x = {0, 1, 10, 11, 20, 21};
  const int32_t ids[] = {2, 0, 2, 1};
  Values out(8);
  for (int thread = 0; thread < 3; ++thread) {
    GatherRows(x.data(), ids, {2, 4}, out.data(), thread, 3);
  }
  EXPECT_TRUE(SameBits(out, {20, 21, 0, 1, 20, 21, 10, 11}));
}

}  // namespace
}  // namespace baton::worker
