#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/sampling/philox.h"
#include "worker/sampling/strict_exp.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;

// The known-answer vectors of Random123 (kat_vectors, philox4x32 10).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  const uint32_t ones = 0xffffffff;
  EXPECT_THAT(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, UniformTakesSeedPositionAndChoiceApart) {
  const double base = UniformAt(7, 3, 0, DrawPurpose::kToken);
  EXPECT_EQ(base, UniformAt(7, 3, 0, DrawPurpose::kToken));
  EXPECT_NE(base, UniformAt(8, 3, 0, DrawPurpose::kToken));
  EXPECT_NE(base, UniformAt(7 + (1ull << 32), 3, 0, DrawPurpose::kToken));
  EXPECT_NE(base, UniformAt(7, 4, 0, DrawPurpose::kToken));
  EXPECT_NE(base, UniformAt(7, 3, 1, DrawPurpose::kToken));
  // Words 1 and 0 of the zero vector above, upper 53 bits.
  EXPECT_EQ(UniformAt(0, 0, 0, DrawPurpose::kToken),
            static_cast<double>(0xe169c58d6627e8d5 >> 11) * 0x1p-53);
}

TEST(PhiloxTest, UniformFillsTheUnitInterval) {
  double sum = 0, low = 1, high = 0;
  for (uint32_t p = 0; p < 100000; ++p) {
    const double u = UniformAt(42, p, 0, DrawPurpose::kToken);
    sum += u;
    low = std::min(low, u);
    high = std::max(high, u);
  }
  EXPECT_GE(low, 0.0);
  EXPECT_LT(high, 1.0);
  // Mean 1/2 with deviation 1/sqrt(12 n) = 9e-4; five of them.
  EXPECT_NEAR(sum / 100000, 0.5, 0.0046);
}

TEST(StrictExpTest, IsWithinTwoUnitsInTheLastPlace) {
  for (double x = 0; x > -707; x -= 0.0137) {
    const double exact = std::exp(x);
    EXPECT_NEAR(StrictExp(x), exact, 4.5e-16 * exact) << x;
  }
  EXPECT_EQ(StrictExp(0.0), 1.0);
  EXPECT_EQ(StrictExp(-0.0), 1.0);
  EXPECT_LT(StrictExp(-708.0), 4e-308);
  EXPECT_EQ(StrictExp(-709.0), StrictExp(-708.0));
  EXPECT_EQ(StrictExp(-1e300), StrictExp(-708.0));
  EXPECT_EQ(StrictExp(-HUGE_VAL), StrictExp(-708.0));
}

TEST(StrictExpTest, NeverRises) {
  double last = 1.0;
  for (double x = 0; x > -30; x -= 1e-4) {
    const double value = StrictExp(x);
    EXPECT_LE(value, last) << x;
    last = value;
  }
}

}  // namespace
}  // namespace baton::worker
