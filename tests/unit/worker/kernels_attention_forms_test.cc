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

TEST_F(AttentionFormsTest, ConvertAlike) {
  constexpr size_t kCount = size_t{1} << 16;
  std::vector<uint16_t> halves(kCount);
  for (size_t i = 0; i < kCount; ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(kCount);
  for (float& value : floats) {
    // Around the range of half precision, both signs, and some beyond.
    const uint32_t bits = (random_() & 0x807fffff) | (95 + random_() % 56)
                                                         << 23;
    std::memcpy(&value, &bits, sizeof(value));
  }
  std::vector<float> wide(kCount);
  std::vector<uint16_t> narrow(kCount);
  kScalarAttention.widen(halves.data(), wide.data(), kCount);
  kScalarAttention.narrow(floats.data(), narrow.data(), kCount);
  for (const NamedForms& form : Forms()) {
    std::vector<float> wide_here(kCount);
    std::vector<uint16_t> narrow_here(kCount);
    form.forms->widen(halves.data(), wide_here.data(), kCount);
    form.forms->narrow(floats.data(), narrow_here.data(), kCount);
    EXPECT_TRUE(SameBits(wide_here, wide)) << form.name;
    EXPECT_TRUE(SameBits(narrow_here, narrow)) << form.name;
  }
  EXPECT_EQ(wide[0x3c00], 1.0f);
}

TEST_F(AttentionFormsTest, ScoreAlike) {
  for (const size_t dim : {16, 48, 64, 80, 128, 256}) {
    const auto q = Random(dim, 2.0f), k = Random(kKeys * dim, 1.0f);
    for (const size_t keys : {1, 4, 5, 63, 64}) {
      std::vector<float> scores(kKeys, 7.0f);
      kScalarAttention.score(q.data(), k.data(), dim, keys, 0.125f,
                             scores.data());
      for (const NamedForms& form : Forms()) {
        std::vector<float> here(kKeys, 7.0f);
        form.forms->score(q.data(), k.data(), dim, keys, 0.125f, here.data());
        EXPECT_TRUE(SameBits(here, scores))
            << form.name << ", " << dim << " by " << keys;
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

TEST_F(AttentionFormsTest, GatherAlike) {
  for (const size_t dim : {16, 80, 128}) {
    const auto v = Random(kKeys * dim, 1.0f);
    for (const size_t queries : {1, 2, 3, 4, 5, 7, 9}) {
      const auto weights = Random(queries * kKeys, 1.0f);
      const auto factors = Random(queries, 1.0f);
      const auto before = Random(queries * dim, 5.0f);
      for (const size_t keys : {1, 17, 64}) {
        std::vector<float> sums = before;
        kScalarAttention.gather(weights.data(), factors.data(), v.data(), dim,
                                keys, queries, sums.data());
        for (const NamedForms& form : Forms()) {
          std::vector<float> here = before;
          form.forms->gather(weights.data(), factors.data(), v.data(), dim,
                             keys, queries, here.data());
          EXPECT_TRUE(SameBits(here, sums))
              << form.name << ", " << queries << " queries of " << dim;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::worker
