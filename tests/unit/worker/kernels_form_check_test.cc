// The check of the products' forms at start-up: it passes what is right, names
// what is wrong, and falls back.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/kernels/matmul/form_check.h"
#include "worker/kernels/matmul/matmul.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Right but for the last place of one number.
template <WeightFormat format, size_t least_rows>
void WrongMultiply(const TileTask& task) {
  kScalarMatMul.multiply[format](task);
  if (task.rows < least_rows) return;
  float* last = task.out + (task.rows - 1) * task.out_stride + task.outputs - 1;
  *last = __builtin_nextafterf(*last, 1e30f);
}
void WrongQuantise(const float* x, size_t columns, uint8_t* out) {
  kScalarMatMul.quantise_large(x, columns, out);
  out[columns - 1] ^= 1;
}

MatMulForms Named(const char* name) {
  MatMulForms forms = kScalarMatMul;
  forms.name = name;
  return forms;
}

TEST(FormCheck, FormsOfThisProcessorPass) {
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    const MatMulForms& forms = MatMulFormsOf(static_cast<KernelForm>(form));
    EXPECT_EQ(Difference(forms), "") << forms.name;
    EXPECT_EQ(&CheckedMatMulFormsOf(
                  static_cast<KernelForm>(form),
                  [](const MatMulForms&, const std::string& difference) {
                    ADD_FAILURE() << difference;
                  }),
              &forms);
  }
}

TEST(FormCheck, NamesTheFormatAndTheRows) {
  MatMulForms forms = Named("wrong");
  forms.multiply[kQ4K] = WrongMultiply<kQ4K, 3>;
  EXPECT_EQ(Difference(forms), "Q4_K, 3 rows");
  forms = Named("wrong");
  forms.multiply[kIq4Xs] = WrongMultiply<kIq4Xs, 5>;
  EXPECT_EQ(Difference(forms), "IQ4_XS, 31 rows");
  forms = Named("wrong");
  forms.quantise_large = WrongQuantise;
  EXPECT_EQ(Difference(forms), "Q4_K, activations");
}

TEST(FormCheck, FallsBackToTheNextCorrectForm) {
  MatMulForms worst = Named("worst"), bad = Named("bad");
  const MatMulForms good = Named("good");
  worst.multiply[kQ4_0] = WrongMultiply<kQ4_0, 1>;
  bad.multiply[kQ8_0] = WrongMultiply<kQ8_0, 1>;
  std::vector<std::string> rejected;
  const RejectForm note = [&](const MatMulForms& forms,
                              const std::string& difference) {
    rejected.push_back(std::string(forms.name) + ": " + difference);
  };
  EXPECT_EQ(
      &FirstCorrectForms(
          std::vector<const MatMulForms*>{&worst, &bad, &good, &kScalarMatMul},
          note),
      &good);
  EXPECT_THAT(rejected,
              ElementsAre("worst: Q4_0, 1 rows", "bad: Q8_0, 1 rows"));
  EXPECT_EQ(&FirstCorrectForms(
                std::vector<const MatMulForms*>{&bad, &kScalarMatMul}, note),
            &kScalarMatMul);
  rejected.clear();
  EXPECT_EQ(
      &FirstCorrectForms(std::vector<const MatMulForms*>{&kScalarMatMul}, note),
      &kScalarMatMul);
  EXPECT_THAT(rejected, IsEmpty());
}

}  // namespace
}  // namespace baton::worker
