#include <gtest/gtest.h>

#include <limits>

#include "services/config/nearest_name.h"
#include "services/config/value_text.h"

namespace baton::config {
namespace {

TEST(ValueTextTest, ReadsBinaryAndDecimalSizes) {
  EXPECT_EQ(ParseBytes("1000").value(), 1000u);
  EXPECT_EQ(ParseBytes("12B").value(), 12u);
  EXPECT_EQ(ParseBytes("3KB").value(), 3000u);
  EXPECT_EQ(ParseBytes("3k").value(), 3072u);
  EXPECT_EQ(ParseBytes("512mib").value(), uint64_t{512} << 20);
  EXPECT_EQ(ParseBytes("4 GiB").value(), uint64_t{4} << 30);
  EXPECT_EQ(ParseBytes("2TB").value(), uint64_t{2000000000000});
}

TEST(ValueTextTest, RefusesSizesThatAreNotWholeNumbersOrOverflow) {
  for (const char* text : {"", "GiB", "-1", "1.5GiB", "4GiBx", "0x10",
                           "99999999999999999999", "17000000TiB"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(ValueTextTest, PrintsASizeThatReadsBackTheSame) {
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1024},
        uint64_t{4} << 30, (uint64_t{4} << 30) + 1,
        std::numeric_limits<uint64_t>::max()}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)).value(), bytes);
  }
  EXPECT_EQ(FormatBytes(uint64_t{4} << 30), "4GiB");
}

TEST(ValueTextTest, RefusesDurationsWithoutUnitNegativeOrEndless) {
  EXPECT_EQ(ParseDuration("1h30m").value(), absl::Minutes(90));
  EXPECT_EQ(ParseDuration("0").value(), absl::ZeroDuration());
  for (const char* text : {"", "30", "-1s", "inf", "s", "3 s"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(ValueTextTest, HoldsNumbersToTheirRange) {
  EXPECT_EQ(ParseUint("7", 1, 7).value(), 7u);
  for (const char* text :
       {"", "0", "8", "-1", "+3", " 3", "3.0", "4294967299"}) {
    EXPECT_FALSE(ParseUint(text, 1, 7).ok()) << text;
  }
  EXPECT_EQ(ParseDouble("0.5", 0, 1).value(), 0.5);
  for (const char* text : {"", "1.01", "-0.1", "nan", "inf", "x"}) {
    EXPECT_FALSE(ParseDouble(text, 0, 1).ok()) << text;
  }
}

TEST(ValueTextTest, PrintsANumberThatReadsBackTheSame) {
  for (double value : {0.0, 0.1, 1.0 / 3.0, 1e-300, 12345678.9}) {
    EXPECT_EQ(ParseDouble(FormatDouble(value), -1e300, 1e300).value(), value);
  }
  EXPECT_EQ(FormatDouble(0.1), "0.1");
}

TEST(ValueTextTest, ReadsTheUsualWordsForTruth) {
  for (const char* text : {"true", "YES", "on", "1"}) {
    EXPECT_TRUE(ParseBool(text).value()) << text;
  }
  for (const char* text : {"false", "No", "off", "0"}) {
    EXPECT_FALSE(ParseBool(text).value()) << text;
  }
  EXPECT_FALSE(ParseBool("maybe").ok());
}

TEST(NearestNameTest, CountsSwapsOfNeighboursOnce) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("model", "modle"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("same", "same"), 0u);
}

TEST(NearestNameTest, SuggestsOnlyWhatIsClose) {
  const std::vector<std::string> known = {"model", "mode", "threads"};
  EXPECT_EQ(NearestName("modle", known), "model");
  EXPECT_EQ(NearestName("thread", known), "threads");
  EXPECT_EQ(NearestName("completely-else", known), "");
  EXPECT_EQ(NearestName("foo", {"url", "grpc"}), "");
  EXPECT_EQ(NearestName("ulr", {"url", "grpc"}), "url");
  EXPECT_EQ(NearestName("mo", {"up"}), "");
}

}  // namespace
}  // namespace baton::config
