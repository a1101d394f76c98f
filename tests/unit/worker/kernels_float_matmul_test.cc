// Products of F32, F16 and BF16 matrices: every form gives the bits of the
// scalar one, a row never depends on its neighbours or on the threads, and
// nothing is rounded but the sums.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ggml.h"
#include "worker/kernels/half.h"
#include "worker/kernels/matmul/matmul.h"

namespace baton::worker {
namespace {

struct Case {
  WeightFormat format;
  ggml_type type;
};
constexpr Case kCases[] = {
    {kF32, GGML_TYPE_F32}, {kF16, GGML_TYPE_F16}, {kBf16, GGML_TYPE_BF16}};

std::vector<float> RandomValues(size_t count, std::mt19937* random) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(count);
  for (float& value : values) value = normal(*random);
  return values;
}

std::vector<uint8_t> Narrow(WeightFormat format,
                            std::span<const float> values) {
  std::vector<uint8_t> bytes(values.size() * BlockBytes(format));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    if (format == kF16) bits = FloatToHalf(values[i]);
    if (format == kBf16) bits >>= 16;
    std::memcpy(&bytes[i * BlockBytes(format)], &bits, BlockBytes(format));
  }
  return bytes;
}

double Widen(WeightFormat format, const uint8_t* at) {
  uint32_t bits = 0;
  std::memcpy(&bits, at, BlockBytes(format));
  if (format == kF16) return HalfToFloat(static_cast<uint16_t>(bits));
  if (format == kBf16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// [rows][outputs], rows of activations `gap` floats longer than they need be.
std::vector<float> Product(WeightFormat format,
                           const std::vector<uint8_t>& weights, size_t columns,
                           size_t outputs, const std::vector<float>& x,
                           KernelForm form, int threads = 1) {
  constexpr size_t kGap = 3;
  const size_t rows = x.size() / columns;
  std::vector<float> spread(rows * (columns + kGap), 1e30f);
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(&spread[row * (columns + kGap)], &x[row * columns],
                columns * sizeof(float));
  }
  // Beyond the end: a kernel that writes too far spoils the mark.
  std::vector<float> out(rows * outputs + 16, 77.0f);
  const WeightMatrix matrix{format, weights.data(), weights.size() / outputs,
                            columns, outputs};
  for (int thread = 0; thread < threads; ++thread) {
    Multiply(MatMulFormsOf(form), matrix,
             reinterpret_cast<const uint8_t*>(spread.data()),
             (columns + kGap) * sizeof(float), rows, out.data(), outputs,
             thread, threads);
  }
  for (size_t i = rows * outputs; i < out.size(); ++i) EXPECT_EQ(out[i], 77.0f);
  out.resize(rows * outputs);
  return out;
}

::testing::AssertionResult SameBits(const float* a, const float* b,
                                    size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0 &&
        !(std::isnan(a[i]) && std::isnan(b[i]))) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

class FloatMatMul : public ::testing::TestWithParam<Case> {
 protected:
  WeightFormat format() const { return GetParam().format; }
  std::mt19937 random_{7};
};

TEST_P(FloatMatMul, ValuesLieAsInTheFile) {
  EXPECT_EQ(BlockBytes(format()), ggml_type_size(GetParam().type));
  EXPECT_EQ(BlockValues(format()), 1u);
  EXPECT_EQ(ActivationOf(format()), ActivationFormat::kFloats);
}

TEST_P(FloatMatMul, EveryFormGivesTheBitsOfTheScalarOne) {
  for (const size_t columns : {1, 7, 15, 16, 17, 64, 100, 576}) {
    for (const size_t outputs : {1, 3, 16, 21}) {
      const std::vector<uint8_t> weights =
          Narrow(format(), RandomValues(columns * outputs, &random_));
      for (const size_t rows : {1, 2, 3, 4, 5, 8, 17}) {
        const std::vector<float> x = RandomValues(rows * columns, &random_);
        const std::vector<float> scalar = Product(
            format(), weights, columns, outputs, x, KernelForm::kScalar);
        for (int form = 1; form <= static_cast<int>(BestKernelForm()); ++form) {
          const std::vector<float> product =
              Product(format(), weights, columns, outputs, x,
                      static_cast<KernelForm>(form));
          ASSERT_TRUE(SameBits(scalar.data(), product.data(), scalar.size()))
              << columns << " columns, " << outputs << " outputs, " << rows
              << " rows, " << KernelFormName(static_cast<KernelForm>(form));
        }
      }
    }
  }
}

TEST_P(FloatMatMul, RowsDependOnNeitherNeighboursNorThreads) {
  const size_t columns = 200, outputs = 70, rows = 257;
  const std::vector<uint8_t> weights =
      Narrow(format(), RandomValues(columns * outputs, &random_));
  const std::vector<float> x = RandomValues(rows * columns, &random_);
  const KernelForm form = BestKernelForm();
  const std::vector<float> whole =
      Product(format(), weights, columns, outputs, x, form);
  for (const size_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 257}) {
    for (const int threads : {1, 2, 3}) {
      const size_t first = rows - count;
      const std::vector<float> part = Product(
          format(), weights, columns, outputs,
          {x.begin() + static_cast<ptrdiff_t>(first * columns), x.end()}, form,
          threads);
      ASSERT_TRUE(SameBits(part.data(), &whole[first * outputs], part.size()))
          << count << " rows, " << threads << " threads";
    }
  }
}

// The error of adding in single precision, nothing more.
TEST_P(FloatMatMul, RoundsNothingButTheSums) {
  const size_t columns = 1000, outputs = 20, rows = 4;
  const std::vector<uint8_t> weights =
      Narrow(format(), RandomValues(columns * outputs, &random_));
  const std::vector<float> x = RandomValues(rows * columns, &random_);
  const std::vector<float> product =
      Product(format(), weights, columns, outputs, x, BestKernelForm());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t output = 0; output < outputs; ++output) {
      double exact = 0, size = 0;
      for (size_t i = 0; i < columns; ++i) {
        const double term =
            Widen(format(),
                  &weights[(output * columns + i) * BlockBytes(format())]) *
            x[row * columns + i];
        exact += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(product[row * outputs + output], exact, 1e-6 * size);
    }
  }
}

TEST_P(FloatMatMul, WhatIsNoNumberStaysInItsRow) {
  const size_t columns = 50, outputs = 5, rows = 4;
  const std::vector<uint8_t> weights =
      Narrow(format(), RandomValues(columns * outputs, &random_));
  std::vector<float> x = RandomValues(rows * columns, &random_);
  const std::vector<float> clean =
      Product(format(), weights, columns, outputs, x, BestKernelForm());
  x[columns + 49] = std::numeric_limits<float>::quiet_NaN();
  x[2 * columns] = std::numeric_limits<float>::infinity();
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    const std::vector<float> product = Product(
        format(), weights, columns, outputs, x, static_cast<KernelForm>(form));
    for (size_t output = 0; output < outputs; ++output) {
      EXPECT_TRUE(std::isnan(product[outputs + output]));
      EXPECT_TRUE(std::isinf(product[2 * outputs + output]));
    }
    EXPECT_TRUE(SameBits(&product[0], &clean[0], outputs));
    EXPECT_TRUE(SameBits(&product[3 * outputs], &clean[3 * outputs], outputs));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FloatMatMul, ::testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(ggml_type_name(info.param.type));
                         });

}  // namespace
}  // namespace baton::worker
