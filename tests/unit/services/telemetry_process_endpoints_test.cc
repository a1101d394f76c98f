#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/http/response_head.h"
#include "services/telemetry/metrics_http.h"

namespace baton::telemetry {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

class Endpoints : public ::testing::Test {
 protected:
  http::Response Get(absl::string_view path) {
    return endpoints_.Answer("GET", path).value_or(http::Response{.status = 0});
  }
  std::unique_ptr<PrometheusMetrics> metrics_ =
      PrometheusMetrics::Create("worker");
  bool ready_ = false;
  ProcessEndpoints endpoints_{metrics_.get(), [this] { return ready_; }};
};

TEST_F(Endpoints, FollowReadiness) {
  EXPECT_EQ(Get("/livez").status, 200);
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/health").status, 503);
  EXPECT_THAT(Get("/health").body, HasSubstr("\"unavailable_error\""));
  EXPECT_THAT(Get("/health").headers, Contains(Pair("retry-after", "1")));
  ready_ = true;
  EXPECT_EQ(Get("/livez").status, 200);
  EXPECT_EQ(Get("/readyz").status, 200);
  EXPECT_EQ(Get("/health").body, "{\"status\":\"ok\"}");
}

TEST_F(Endpoints, GiveTheExpositionText) {
  metrics_->GetCounter("baton_test_total", "A counter")->Increment(3);
  const http::Response response = Get("/metrics");
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(response.body, HasSubstr("baton_test_total 3"));
  EXPECT_THAT(response.body, HasSubstr("baton_build_info{"));
}

TEST_F(Endpoints, GiveTheVersion) {
  EXPECT_THAT(Get("/version").body, HasSubstr("{\"version\":\"0."));
}

TEST_F(Endpoints, TakeOnlyGetAndHeadAndOnlyTheirPaths) {
  EXPECT_EQ(endpoints_.Answer("HEAD", "/livez")->status, 200);
  const auto refused = endpoints_.Answer("POST", "/metrics");
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 405);
  EXPECT_THAT(refused->headers, Contains(Pair("allow", "GET, HEAD")));
  EXPECT_FALSE(endpoints_.Answer("GET", "/metrics/").has_value());
  EXPECT_FALSE(endpoints_.Answer("GET", "/").has_value());
}

TEST(ResponseHead, MarksTheEndOfTheBody) {
  http::Response response;
  response.status = 429;
  response.headers.emplace_back("retry-after", "2");
  response.body = "abc";
  EXPECT_EQ(http::FormatHead(response, {}),
            "HTTP/1.1 429 Too Many Requests\r\n"
            "content-type: application/json\r\nretry-after: 2\r\n"
            "content-length: 3\r\nconnection: keep-alive\r\n\r\n");
  http::HeadOptions options;
  options.http_1_0 = true;
  options.keep_alive = false;
  options.framing = http::Framing::kUntilClose;
  EXPECT_THAT(http::FormatHead(response, options),
              ::testing::StartsWith("HTTP/1.0 429"));
  EXPECT_THAT(http::FormatHead(response, options),
              ::testing::Not(HasSubstr("content-length")));
}

TEST(ResponseHead, NeverWritesAnEmptyChunk) {
  std::string out;
  http::AppendPiece("", true, &out);
  EXPECT_EQ(out, "");
  http::AppendPiece(std::string(26, 'x'), true, &out);
  EXPECT_EQ(out, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

}  // namespace
}  // namespace baton::telemetry
