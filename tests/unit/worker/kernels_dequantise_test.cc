// Embedding rows: the bits of ggml's own reading of the formats, whatever the
// bytes of a block are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "worker/kernels/rows/dequantise.h"

namespace baton::worker {
namespace {

constexpr size_t kColumns = 1024;

struct Case {
  WeightFormat format;
  ggml_type type;
};
constexpr Case kCases[] = {
    {kQ4_0, GGML_TYPE_Q4_0}, {kQ4_1, GGML_TYPE_Q4_1},
    {kQ5_0, GGML_TYPE_Q5_0}, {kQ5_1, GGML_TYPE_Q5_1},
    {kQ8_0, GGML_TYPE_Q8_0}, {kIq4Nl, GGML_TYPE_IQ4_NL},
    {kQ4K, GGML_TYPE_Q4_K},  {kQ5K, GGML_TYPE_Q5_K},
    {kQ6K, GGML_TYPE_Q6_K},  {kIq4Xs, GGML_TYPE_IQ4_XS},
    {kF16, GGML_TYPE_F16},   {kBf16, GGML_TYPE_BF16},
};

class Dequantise : public testing::TestWithParam<Case> {};

TEST_P(Dequantise, GivesTheBitsOfGgmlForAnyBytes) {
  std::mt19937 random(1);
  std::vector<uint8_t> row(ggml_row_size(GetParam().type, kColumns));
  std::vector<float> ours(kColumns), theirs(kColumns);
  for (int step = 0; step < 200; ++step) {
    for (uint8_t& byte : row) byte = static_cast<uint8_t>(random());
    DequantiseRow(GetParam().format, row.data(), kColumns, ours.data());
    ggml_get_type_traits(GetParam().type)
        ->to_float(row.data(), theirs.data(), kColumns);
    for (size_t i = 0; i < kColumns; ++i) {
      if (std::isnan(ours[i]) && std::isnan(theirs[i])) continue;
      ASSERT_EQ(std::memcmp(&ours[i], &theirs[i], sizeof(float)), 0)
          << "value " << i << ": " << ours[i] << " and " << theirs[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Dequantise, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(ggml_type_name(info.param.type));
                         });

}  // namespace
}  // namespace baton::worker
