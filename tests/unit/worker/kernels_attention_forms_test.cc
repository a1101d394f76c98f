// The functions of attention's forms one by one: every form gives the bits of
// the scalar one. The AVX-512 form's sources run everywhere, emulated.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/half.h"
#include "worker/kernels/kernel_form.h"

namespace baton::worker {
#if defined(__x86_64__)
extern const AttentionForms kEmulatedAttention;  // support/emulated_avx512.h
#endif
namespace {

constexpr size_t kKeys = 64;

struct NamedForms {
  std::string name;
  const AttentionForms* forms;
};

std::vector<NamedForms> Forms() {
  std::vector<NamedForms> forms;
#if defined(__x86_64__)
  if (BestKernelForm() >= KernelForm::kAvx2) {
    forms.push_back({"avx2", &kAvx2Attention});
  }
  if (BestKernelForm() >= KernelForm::kAvx512) {
    forms.push_back({"avx512", &kAvx512Attention});
  }
  forms.push_back({"emulated", &kEmulatedAttention});
#endif
  return forms;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class AttentionFormsTest : public ::testing::Test {
 protected:
  std::vector<float> Random(size_t count, float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::mt19937 random_{3};
};

TEST_F(AttentionFormsTest, NarrowAlike) {
  constexpr size_t kCount = size_t{1} << 16;
  std::vector<float> floats(kCount);
  for (float& value : floats) {
    // Around the range of half precision, both signs, and some beyond.
    const uint32_t bits = (random_() & 0x807fffff) | (95 + random_() % 56)
                                                         << 23;
    std::memcpy(&value, &bits, sizeof(value));
  }
  std::vector<uint16_t> narrow(kCount);
  kScalarAttention.narrow(floats.data(), narrow.data(), kCount);
  for (const NamedForms& form : Forms()) {
    std::vector<uint16_t> here(kCount);
    form.forms->narrow(floats.data(), here.data(), kCount);
    EXPECT_TRUE(SameBits(here, narrow)) << form.name;
  }
  EXPECT_EQ(narrow[0], FloatToHalf(floats[0]));
}

// Every half is widened alike; gaps between rows are left out.
TEST_F(AttentionFormsTest, PackAlike) {
  for (const size_t columns : {16, 32, 48, 64, 80, 256}) {
    const size_t rows = (size_t{1} << 16) / columns, stride = columns + 5;
    std::vector<uint16_t> halves(rows * stride);
    for (size_t i = 0; i < halves.size(); ++i) {
      halves[i] = static_cast<uint16_t>(i);
    }
    const auto floats = Random(rows * stride, 1.0f);
    const size_t size = (columns + 31) / 32 * rows * kPanelColumns;
    std::vector<float> from_half(size, 7.0f), from_float(size, 7.0f);
    kScalarAttention.pack_half(halves.data(), nullptr, stride, rows, columns,
                               from_half.data());
    kScalarAttention.pack(floats.data(), nullptr, stride, rows, columns,
                          from_float.data());
    const size_t panel = (columns - 1) / kPanelColumns;
    const size_t last = (panel * rows + rows - 1) * kPanelColumns +
                        (columns - 1) % kPanelColumns;
    EXPECT_EQ(from_float[last], floats[(rows - 1) * stride + columns - 1]);
    for (const NamedForms& form : Forms()) {
      std::vector<float> here(size, 7.0f);
      form.forms->pack_half(halves.data(), halves.data(), stride, rows, columns,
                            here.data());
      EXPECT_TRUE(SameBits(here, from_half)) << form.name << ", " << columns;
      here.assign(size, 7.0f);
      form.forms->pack(floats.data(), floats.data(), stride, rows, columns,
                       here.data());
      EXPECT_TRUE(SameBits(here, from_float)) << form.name << ", " << columns;
    }
  }
}

TEST_F(AttentionFormsTest, TransposeAlike) {
  for (const size_t dim : {16, 48, 80, 256}) {
    std::vector<uint16_t> halves(kKeys * dim);
    for (uint16_t& half : halves) half = static_cast<uint16_t>(random_());
    const auto floats = Random(kKeys * dim, 1.0f);
    for (const size_t keys : {1, 16, 17, 63, 64}) {
      std::vector<uint16_t> half(dim * kKeys, 7);
      std::vector<float> single(dim * kKeys, 7.0f);
      kScalarAttention.transpose_half(halves.data(), dim, keys, half.data());
      kScalarAttention.transpose(floats.data(), dim, keys, single.data());
      EXPECT_EQ(half[2 * kKeys + keys - 1], halves[(keys - 1) * dim + 2]);
      EXPECT_EQ(single[2 * kKeys + keys - 1], floats[(keys - 1) * dim + 2]);
      for (const NamedForms& form : Forms()) {
        std::vector<uint16_t> half_here(dim * kKeys, 7);
        form.forms->transpose_half(halves.data(), dim, keys, half_here.data());
        EXPECT_TRUE(SameBits(half_here, half)) << form.name << ", " << dim;
        std::vector<float> single_here(dim * kKeys, 7.0f);
        form.forms->transpose(floats.data(), dim, keys, single_here.data());
        EXPECT_TRUE(SameBits(single_here, single)) << form.name << ", " << dim;
      }
    }
  }
}

// From a first block and from an earlier one, whose maximum is lower or higher;
// with scores so far apart that weights vanish.
TEST_F(AttentionFormsTest, SoftenAlike) {
  for (const float spread : {0.1f, 3.0f, 100.0f}) {
    for (const size_t keys : {1, 15, 16, 33, 64}) {
      const auto scores = Random(kKeys, spread);
      for (const float before : {-INFINITY, -200.0f, 0.5f, 400.0f}) {
        std::vector<float> weights = scores;
        float maximum = before, sum = 1.25f;
        const float factor =
            kScalarAttention.soften(weights.data(), keys, &maximum, &sum);
        const std::vector<float> numbers = {factor, maximum, sum};
        for (const NamedForms& form : Forms()) {
          std::vector<float> here = scores;
          float maximum_here = before, sum_here = 1.25f;
          const float factor_here =
              form.forms->soften(here.data(), keys, &maximum_here, &sum_here);
          EXPECT_TRUE(SameBits(here, weights)) << form.name;
          EXPECT_TRUE(SameBits({factor_here, maximum_here, sum_here}, numbers))
              << form.name << ", " << keys << " keys after " << before;
        }
      }
    }
  }
}

// Every way that rows and columns are divided among registers; with strides
// wider than the matrices, and panels of more rows than count. The product of
// few rows, from halves, gives what the same halves give in panels.
TEST_F(AttentionFormsTest, MultiplyAlike) {
  constexpr size_t kSpare = 3;
  for (const size_t columns : {16, 32, 48, 64, 80, 128}) {
    for (const size_t inner : {1, 17, 64}) {
      const size_t stride = columns + kSpare, panel_rows = inner + kSpare;
      std::vector<uint16_t> halves(panel_rows * stride);
      for (uint16_t& half : halves) half = FloatToHalf(Random(1, 1.0f)[0]);
      std::vector<float> panels((columns + 31) / 32 * panel_rows *
                                kPanelColumns);
      kScalarAttention.pack_half(halves.data(), nullptr, stride, panel_rows,
                                 columns, panels.data());
      for (const size_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 48}) {
        const auto a = Random(rows * (inner + kSpare), 1.0f);
        const auto factors = Random(rows, 1.0f);
        const auto before = Random(rows * stride, 5.0f);
        for (const bool from_zero : {false, true}) {
          std::vector<float> c;
          const auto product = [&] {
            c = before;
            return AttentionProduct{
                .a = a.data(),
                .a_stride = inner + kSpare,
                .c = c.data(),
                .c_stride = stride,
                .factors = from_zero ? nullptr : factors.data(),
                .rows = rows,
                .columns = columns,
                .inner = inner};
          };
          kScalarAttention.multiply(product(), panels.data(), panel_rows);
          const std::vector<float> scalar = c;
          float first = from_zero ? 0 : before[0] * factors[0];
          for (size_t j = 0; j < inner; ++j) {
            first = std::fma(a[j], HalfToFloat(halves[j * stride]), first);
          }
          EXPECT_EQ(scalar[0], first);
          for (size_t r = 0; r < rows; ++r) {  // the gap is not written
            EXPECT_EQ(scalar[r * stride + columns],
                      before[r * stride + columns]);
          }
          auto forms = Forms();
          forms.push_back({"scalar", &kScalarAttention});
          for (const NamedForms& form : forms) {
            form.forms->multiply(product(), panels.data(), panel_rows);
            EXPECT_TRUE(SameBits(c, scalar))
                << form.name << ", " << rows << " by " << columns << " by "
                << inner;
            if (rows > kFewRows) continue;
            form.forms->multiply_few(product(), halves.data(), halves.data(),
                                     stride);
            EXPECT_TRUE(SameBits(c, scalar))
                << form.name << ", few: " << rows << " by " << columns << " by "
                << inner;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::worker
