#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "services/base/log.h"

namespace baton {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class LogTest : public testing::Test {
 protected:
  ~LogTest() override { ConfigureLog({}); }
};

TEST_F(LogTest, AJsonLineReadsBackWhateverTheValuesHold) {
  ConfigureLog({.format = LogFormat::kJson, .process = "decode-0"});
  const std::string odd = "a \"b\" \\ \n \t \x01 é";
  CaptureStderr();
  Log(LogLevel::kWarning, odd, {{"value", odd}, {"count", 3}});
  const std::string line = GetCapturedStderr();
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["message"], odd);
  EXPECT_EQ(json["value"], odd);
  EXPECT_EQ(json["count"], "3");
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["process"], "decode-0");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST_F(LogTest, ATextLineQuotesOnlyWhatNeedsIt) {
  ConfigureLog({.process = "gateway"});
  CaptureStderr();
  Log(LogLevel::kInfo, "ready",
      {{"a", "plain"}, {"b", "two words"}, {"c", ""}, {"d", "x\ny"}});
  const std::string line = GetCapturedStderr();
  EXPECT_THAT(line, HasSubstr(" info gateway ready a=plain b=\"two words\" "));
  EXPECT_THAT(line, EndsWith("c=\"\" d=\"x\\ny\"\n"));
}

TEST_F(LogTest, LinesBelowTheLevelAreNotWritten) {
  ConfigureLog({.level = LogLevel::kWarning});
  CaptureStderr();
  Log(LogLevel::kInfo, "quiet");
  Log(LogLevel::kDebug, "quiet");
  EXPECT_THAT(GetCapturedStderr(), IsEmpty());
}

}  // namespace
}  // namespace baton
