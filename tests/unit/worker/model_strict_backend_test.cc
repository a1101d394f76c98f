// Row invariance of ggml's operations under the product's own set-up: every
// row of a product has the bits that it has alone on one thread.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ggml-alloc.h"
#include "gtest/gtest.h"
#include "worker/graph/strict_backend.h"
#include "worker/kernels/kernel_form.h"

namespace baton::worker {
namespace {

constexpr int64_t kDepth = 512;   // a multiple of every block size
constexpr int64_t kOutputs = 19;  // no multiple of any tile

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Weights of `type` as bytes, quantised by ggml.
std::vector<char> MakeWeights(ggml_type type) {
  const std::vector<float> values = Random(kDepth * kOutputs, 1);
  const std::vector<float> importance(kDepth, 1.0f);
  std::vector<char> bytes(ggml_row_size(type, kDepth) * kOutputs);
  ggml_quantize_chunk(type, values.data(), bytes.data(), 0, kOutputs, kDepth,
                      importance.data());
  return bytes;
}

// weights * x for `rows` rows of x.
std::vector<float> Multiply(StrictBackend* backend, ggml_type type,
                            const std::vector<char>& weights, const float* x,
                            int64_t rows) {
  ggml_context* context =
      ggml_init({8 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr,
                 /*no_alloc=*/true});
  ggml_tensor* w = ggml_new_tensor_2d(context, type, kDepth, kOutputs);
  ggml_tensor* in = ggml_new_tensor_2d(context, GGML_TYPE_F32, kDepth, rows);
  ggml_set_input(w);
  ggml_set_input(in);
  ggml_tensor* product = ggml_mul_mat(context, w, in);
  ggml_set_output(product);
  ggml_cgraph* graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, product);
  ggml_gallocr* allocator = ggml_gallocr_new(backend->buffer_type());
  EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator, graph));
  std::memcpy(w->data, weights.data(), weights.size());
  std::memcpy(in->data, x, rows * kDepth * sizeof(float));
  EXPECT_TRUE(backend->Compute(graph).ok());
  std::vector<float> out(kOutputs * rows);
  std::memcpy(out.data(), product->data, out.size() * sizeof(float));
  ggml_gallocr_free(allocator);
  ggml_free(context);
  return out;
}

std::vector<ggml_type> MatrixTypes() {
  std::vector<ggml_type> types;
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const ggml_type type = static_cast<ggml_type>(i);
    if (ggml_blck_size(type) > 0 && SupportsMatrixType(type)) {
      types.push_back(type);
    }
  }
  return types;
}

class MulMatTest : public ::testing::TestWithParam<ggml_type> {};

TEST_P(MulMatTest, ARowHasTheBitsThatItHasAlone) {
  constexpr int64_t kMostRows = 257;
  const ggml_type type = GetParam();
  const std::vector<char> weights = MakeWeights(type);
  const std::vector<float> x = Random(kDepth * kMostRows, 2);
  std::vector<std::unique_ptr<StrictBackend>> backends;
  for (int threads = 1; threads <= 3; ++threads) {
    auto backend = StrictBackend::Create(threads);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backends.push_back(*std::move(backend));
  }
  std::vector<float> alone;
  for (int64_t row = 0; row < kMostRows; ++row) {
    const auto out =
        Multiply(backends[0].get(), type, weights, x.data() + row * kDepth, 1);
    alone.insert(alone.end(), out.begin(), out.end());
  }
  for (const auto& backend : backends) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 257}) {
      const auto out = Multiply(backend.get(), type, weights, x.data(), rows);
      EXPECT_EQ(
          std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0)
          << rows << " rows, " << backend->threads() << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, MulMatTest,
                         ::testing::ValuesIn(MatrixTypes()),
                         [](const auto& info) {
                           return std::string(ggml_type_name(info.param));
                         });

TEST(StrictBackend, KnowsTheCommonWeightTypes) {
  for (const ggml_type type :
       {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0,
        GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0,
        GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K,
        GGML_TYPE_Q6_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS}) {
    EXPECT_TRUE(SupportsMatrixType(type)) << ggml_type_name(type);
  }
  for (const ggml_type type :
       {GGML_TYPE_I32, GGML_TYPE_F64, GGML_TYPE_Q8_1, GGML_TYPE_Q8_K}) {
    EXPECT_FALSE(SupportsMatrixType(type)) << ggml_type_name(type);
  }
}

TEST(StrictBackend, RefusesThreadCountsOutOfRange) {
  EXPECT_EQ(StrictBackend::Create(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StrictBackend::Create(GGML_MAX_N_THREADS + 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(StrictBackend, NumericsIdNamesGgmlOnlyWhereItComputes) {
  const std::string ours = NumericsId(false), mixed = NumericsId(true);
  EXPECT_EQ(ours.find(absl::StrCat("k", kKernelRevision, "-glibc")), 0u);
  EXPECT_EQ(ours.find("avx"), std::string::npos) << ours;
  EXPECT_EQ(ours.find("ggml"), std::string::npos) << ours;
  EXPECT_EQ(mixed.find(absl::StrCat(ours, "-ggml", ggml_version())), 0u)
      << mixed;
}

}  // namespace
}  // namespace baton::worker
