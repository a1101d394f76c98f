// Our matrix products: every form gives the bits of the scalar one, a row
// never depends on its neighbours or on the threads, and the rounding costs no
// more than ggml's own products of the same type.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ggml-cpu.h"
#include "ggml.h"
#include "worker/kernels/half.h"
#include "worker/kernels/matmul/matmul.h"

namespace baton::worker {
#if defined(__x86_64__)
// tests/support/emulated_avx512.h, emulated_amx.h
extern const MatMulForms kEmulatedMatMul, kEmulatedAmxMatMul;
#endif
namespace {

struct Case {
  WeightFormat format;
  ggml_type type;
  std::vector<size_t> halves;  // where a block has half-precision numbers
};

const std::vector<Case>& Cases() {
  static const auto* const kCases = new std::vector<Case>{
      {kQ4_0, GGML_TYPE_Q4_0, {0}},   {kQ4_1, GGML_TYPE_Q4_1, {0, 2}},
      {kQ5_0, GGML_TYPE_Q5_0, {0}},   {kQ5_1, GGML_TYPE_Q5_1, {0, 2}},
      {kQ8_0, GGML_TYPE_Q8_0, {0}},   {kIq4Nl, GGML_TYPE_IQ4_NL, {0}},
      {kQ4K, GGML_TYPE_Q4_K, {0, 2}}, {kQ5K, GGML_TYPE_Q5_K, {0, 2}},
      {kQ6K, GGML_TYPE_Q6_K, {208}},  {kIq4Xs, GGML_TYPE_IQ4_XS, {0}},
  };
  return *kCases;
}

// Every form that this processor can run, the scalar one first and the best
// last; then, on any x86-64, the sources of the AVX-512 form, emulated.
std::vector<MatMulForms> Forms() {
  std::vector<MatMulForms> forms;
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    forms.push_back(MatMulFormsOf(static_cast<KernelForm>(form)));
  }
#if defined(__x86_64__)
  for (MatMulForms emulated : {kEmulatedMatMul, kEmulatedAmxMatMul}) {
    // These are the AVX2 form's own, compiled for AVX2.
    emulated.quantise_small = kScalarMatMul.quantise_small;
    emulated.quantise_large = kScalarMatMul.quantise_large;
    forms.push_back(emulated);
  }
#endif
  return forms;
}

// Which bytes the quants and scales of a test matrix have.
enum class Bytes { kRandom, kLargest, kSmallest };

std::vector<uint8_t> RandomWeights(const Case& test, size_t columns,
                                   size_t outputs, Bytes bytes,
                                   std::mt19937* random) {
  const size_t block = BlockBytes(test.format);
  std::vector<uint8_t> weights(columns / BlockValues(test.format) * outputs *
                               block);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = bytes == Bytes::kRandom    ? static_cast<uint8_t>((*random)())
                 : bytes == Bytes::kLargest ? 0xff
                                            : 0x80;
  }
  std::uniform_real_distribution<float> scale(-0.02f, 0.02f);
  for (size_t at = 0; at < weights.size(); at += block) {
    for (size_t half : test.halves) {
      const uint16_t value = FloatToHalf(scale(*random));
      std::memcpy(&weights[at + half], &value, sizeof(value));
    }
  }
  return weights;
}

std::vector<float> RandomRows(size_t count, bool extreme,
                              std::mt19937* random) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> x(count);
  // Extreme: all of one magnitude, which rounds to +-127 throughout.
  for (float& value : x) {
    value = extreme ? ((*random)() % 2 == 0 ? 1.0f : -1.0f) : normal(*random);
  }
  return x;
}

struct Product {
  std::vector<uint8_t> activations;
  std::vector<float> out;  // [rows][outputs]
};

Product Compute(const Case& test, const std::vector<uint8_t>& weights,
                size_t columns, size_t outputs, const std::vector<float>& x,
                const MatMulForms& forms, int threads = 1) {
  const ActivationFormat activation = ActivationOf(test.format);
  const size_t rows = x.size() / columns;
  Product product;
  product.activations.resize(rows * ActivationRowBytes(activation, columns));
  // Beyond the end: a kernel that writes too far spoils the mark.
  product.out.assign(rows * outputs + 16, 77.0f);
  for (int thread = 0; thread < threads; ++thread) {
    QuantiseRows(forms, activation, x.data(), columns, columns, rows,
                 product.activations.data(), thread, threads);
  }
  const WeightMatrix matrix{test.format, weights.data(),
                            weights.size() / outputs, columns, outputs};
  for (int thread = 0; thread < threads; ++thread) {
    Multiply(forms, matrix, product.activations.data(),
             ActivationRowBytes(activation, columns), rows, product.out.data(),
             outputs, thread, threads);
  }
  for (size_t i = rows * outputs; i < product.out.size(); ++i) {
    EXPECT_EQ(product.out[i], 77.0f);
  }
  product.out.resize(rows * outputs);
  return product;
}

// Bit for bit, also where both are no number.
template <typename T>
::testing::AssertionResult SameBits(const std::vector<T>& a,
                                    const std::vector<T>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << ": " << +a[i] << " and " << +b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

class MatMul : public ::testing::TestWithParam<size_t> {
 protected:
  const Case& test() const { return Cases()[GetParam()]; }
  size_t block() const { return BlockValues(test().format); }
  std::mt19937 random_{static_cast<uint32_t>(GetParam()) + 1};
};

TEST_P(MatMul, BlocksLieAsInTheFile) {
  EXPECT_EQ(BlockBytes(test().format), ggml_type_size(test().type));
  EXPECT_EQ(BlockValues(test().format),
            static_cast<size_t>(ggml_blck_size(test().type)));
}

TEST_P(MatMul, EveryFormGivesTheBitsOfTheScalarOne) {
  // The widest needs several panels of the tiled form; 21 outputs end in a
  // partial tile.
  for (const size_t columns : {block(), 3 * block(), 12 * size_t{256}}) {
    for (const Bytes bytes :
         {Bytes::kRandom, Bytes::kLargest, Bytes::kSmallest}) {
      const size_t outputs = 21;
      const std::vector<uint8_t> weights =
          RandomWeights(test(), columns, outputs, bytes, &random_);
      for (const size_t rows : {1, 2, 3, 4, 5, 8, 17}) {
        for (const bool extreme : {false, true}) {
          const std::vector<float> x =
              RandomRows(rows * columns, extreme, &random_);
          const Product scalar =
              Compute(test(), weights, columns, outputs, x, kScalarMatMul);
          for (const MatMulForms& forms : Forms()) {
            SCOPED_TRACE(forms.name);
            const Product product =
                Compute(test(), weights, columns, outputs, x, forms);
            ASSERT_TRUE(SameBits(scalar.activations, product.activations));
            ASSERT_TRUE(SameBits(scalar.out, product.out));
          }
        }
      }
    }
  }
}

TEST_P(MatMul, RowsDependOnNeitherNeighboursNorThreads) {
  const size_t columns = 2 * 256, outputs = 70, rows = 257;
  const std::vector<uint8_t> weights =
      RandomWeights(test(), columns, outputs, Bytes::kRandom, &random_);
  const std::vector<float> x = RandomRows(rows * columns, false, &random_);
  const MatMulForms& forms = MatMulFormsOf(BestKernelForm());
  const Product whole = Compute(test(), weights, columns, outputs, x, forms);
  for (const size_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 257}) {
    for (const int threads : {1, 2, 3}) {
      const size_t first = rows - count;
      const Product part = Compute(
          test(), weights, columns, outputs,
          {x.begin() + static_cast<ptrdiff_t>(first * columns), x.end()}, forms,
          threads);
      ASSERT_TRUE(
          SameBits(part.out,
                   {whole.out.begin() + static_cast<ptrdiff_t>(first * outputs),
                    whole.out.end()}))
          << count << " rows, " << threads << " threads";
    }
  }
}

// Root mean square of the error against a product in double precision of the
// same weights and unrounded activations, relative to that product.
TEST_P(MatMul, IsAsAccurateAsGgml) {
  const size_t columns = 4 * 256, outputs = 48, rows = 16;
  // Weights as a quantiser makes them.
  std::vector<float> values = RandomRows(columns * outputs, false, &random_);
  for (float& value : values) value *= 0.05f;
  std::vector<uint8_t> weights(outputs * ggml_row_size(test().type, columns));
  ggml_quantize_chunk(test().type, values.data(), weights.data(), 0, outputs,
                      columns, nullptr);
  ggml_get_type_traits(test().type)
      ->to_float(weights.data(), values.data(), columns * outputs);
  const std::vector<float> x = RandomRows(rows * columns, false, &random_);
  const Product product = Compute(test(), weights, columns, outputs, x,
                                  MatMulFormsOf(BestKernelForm()));

  const ggml_type_traits_cpu* traits = ggml_get_type_traits_cpu(test().type);
  const ggml_type_traits_cpu* rounded =
      ggml_get_type_traits_cpu(traits->vec_dot_type);
  std::vector<uint8_t> activation(ggml_row_size(traits->vec_dot_type, columns));
  double ours = 0, theirs = 0, size = 0;
  for (size_t row = 0; row < rows; ++row) {
    rounded->from_float(&x[row * columns], activation.data(), columns);
    for (size_t output = 0; output < outputs; ++output) {
      double exact = 0;
      for (size_t i = 0; i < columns; ++i) {
        exact += double{values[output * columns + i]} * x[row * columns + i];
      }
      float ggml = 0;
      traits->vec_dot(static_cast<int>(columns), &ggml, 0,
                      weights.data() + output * weights.size() / outputs, 0,
                      activation.data(), 0, 1);
      ours += std::pow(product.out[row * outputs + output] - exact, 2);
      theirs += std::pow(ggml - exact, 2);
      size += exact * exact;
    }
  }
  EXPECT_LE(std::sqrt(ours / size), 1.02 * std::sqrt(theirs / size));
  EXPECT_LT(std::sqrt(ours / size), 0.02);
}

INSTANTIATE_TEST_SUITE_P(Formats, MatMul,
                         ::testing::Range(size_t{0}, kQuantisedFormats),
                         [](const auto& info) {
                           return std::string(
                               ggml_type_name(Cases()[info.param].type));
                         });

// What is no number stays visible, zeros stay zero, and no form disagrees.
TEST(Activations, RoundAlikeInEveryFormAlsoWhenBroken) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ActivationFormat format :
       {ActivationFormat::kSmallBlocks, ActivationFormat::kLargeBlocks}) {
    for (const float odd :
         {0.0f, -0.0f, 1e-44f, 1e-35f, 1e-31f, 3.0f, -1e30f, inf, -inf, nan}) {
      std::vector<float> x(256, 0.0f);
      x[37] = odd;
      x[41] = -x[37];  // the first of equal magnitude decides a sign
      const size_t bytes = ActivationRowBytes(format, x.size());
      std::vector<std::vector<uint8_t>> results;
      for (const MatMulForms& forms : Forms()) {
        results.emplace_back(bytes, 0xee);
        QuantiseRows(forms, format, x.data(), x.size(), x.size(), 1,
                     results.back().data(), 0, 1);
        EXPECT_TRUE(SameBits(results[0], results.back()))
            << odd << " " << forms.name;
      }
      float d;
      const size_t block =
          format == ActivationFormat::kLargeBlocks ? 0 : 37 / kSmallBlock;
      std::memcpy(&d, results[0].data() + x.size() + 4 * block, sizeof(d));
      EXPECT_EQ(std::isnan(d), !std::isfinite(odd)) << odd;
      const int8_t q = static_cast<int8_t>(results[0][37]);
      const bool counts = std::isfinite(odd) && std::fabs(odd) >= kSmallest;
      EXPECT_EQ(std::abs(q), counts ? 127 : 0) << odd;
    }
  }
}

}  // namespace
}  // namespace baton::worker
