// Route table, sinks and the measuring writer, over a writer that only records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gateway/http/answer_sink.h"
#include "gateway/http/measured_writer.h"
#include "gateway/http/route_table.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/fake_served_model.h"

namespace baton::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RecordingWriter final : public http::ResponseWriter {
 public:
  void Send(http::Response response) override {
    sent = response;
    ended = true;
  }
  void Begin(http::Response head) override {
    begun = head;
    body = head.body;
  }
  bool Write(absl::string_view bytes) override {
    body += std::string(bytes);
    return true;
  }
  void Finish() override { ended = true; }
  void OnClosed(std::function<void()> callback) override { closed = callback; }
  void OnSilent(absl::Duration, std::function<void()>) override {}

  std::optional<http::Response> sent;
  std::optional<http::Response> begun;
  std::string body;
  bool ended = false;
  std::function<void()> closed;
};

std::vector<std::string> Events(const std::string& body) {
  std::vector<std::string> events;
  size_t start = 0;
  while (true) {
    const size_t end = body.find("\n\n", start);
    if (end == std::string::npos) return events;
    events.push_back(body.substr(start, end - start));
    start = end + 2;
  }
}

Json Data(const std::string& event) { return Json::parse(event.substr(6)); }

class StreamedSink : public ::testing::Test {
 protected:
  std::shared_ptr<StreamedAnswerSink> Make(
      AnswerOptions options, AnswerKind kind = AnswerKind::kChat) {
    AnswerContext context;
    context.kind = kind;
    context.options = options;
    context.id = "id";
    context.model = MakeByteModel();
    return std::make_shared<StreamedAnswerSink>(
        context, writer_, std::make_shared<SystemClock>());
  }
  std::shared_ptr<RecordingWriter> writer_ =
      std::make_shared<RecordingWriter>();
};

TEST_F(StreamedSink, SendsRoleTextFinishUsageDone) {
  AnswerOptions options;
  options.include_usage = true;
  auto sink = Make(options);
  EXPECT_FALSE(writer_->begun.has_value());
  sink->OnText("he", {EmittedToken{1}});
  sink->OnText("", {EmittedToken{2}});
  sink->OnText("llo", {EmittedToken{3}});
  sink->OnEnd(GenerationReport());
  ASSERT_TRUE(writer_->begun.has_value());
  EXPECT_EQ(writer_->begun->status, 200);
  EXPECT_EQ(writer_->begun->content_type, "text/event-stream");
  const auto events = Events(writer_->body);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(Data(events[0])["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(Data(events[1])["choices"][0]["delta"]["content"], "he");
  EXPECT_EQ(Data(events[2])["choices"][0]["delta"]["content"], "llo");
  EXPECT_EQ(Data(events[3])["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(Data(events[3]).count("timings"), 1u);
  EXPECT_TRUE(Data(events[4])["choices"].empty());
  EXPECT_EQ(events[5], "data: [DONE]");
  EXPECT_TRUE(writer_->ended);
}

TEST_F(StreamedSink, RefusesWithAStatusBeforeTheFirstByte) {
  auto sink = Make({});
  sink->OnError(absl::ResourceExhaustedError("full"));
  ASSERT_TRUE(writer_->sent.has_value());
  EXPECT_EQ(writer_->sent->status, 429);
  EXPECT_FALSE(writer_->begun.has_value());
}

TEST_F(StreamedSink, PutsALateErrorIntoTheStream) {
  auto sink = Make({});
  sink->OnText("a", {EmittedToken{1}});
  sink->OnError(absl::DataLossError("crc"));
  const auto events = Events(writer_->body);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(Data(events[2])["error"]["code"], "kv_corrupt");
  EXPECT_EQ(events[3], "data: [DONE]");
  EXPECT_TRUE(writer_->ended);
}

TEST_F(StreamedSink, CommitsTheStatusWithAPing) {
  auto sink = Make({});
  sink->Ping();
  EXPECT_EQ(writer_->body, ": ping\n\n");
  sink->OnError(absl::UnavailableError("gone"));
  EXPECT_FALSE(writer_->sent.has_value());
  EXPECT_THAT(writer_->body, HasSubstr("\"no_worker\""));
  const std::string body = writer_->body;
  sink->Ping();
  EXPECT_EQ(writer_->body, body) << "a ping after the end";
}

TEST_F(StreamedSink, ReportsProgressOnlyIfAsked) {
  auto silent = Make({});
  silent->OnProgress(1, 2);
  EXPECT_FALSE(writer_->begun.has_value());
  AnswerOptions options;
  options.return_progress = true;
  auto sink = Make(options);
  sink->OnProgress(10, 40);
  const auto events = Events(writer_->body);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(Data(events[1])["prompt_progress"]["processed"], 10);
  EXPECT_EQ(Data(events[1])["prompt_progress"]["total"], 40);
}

TEST_F(StreamedSink, SendsEachTokensTimingsIfAsked) {
  AnswerOptions options;
  options.timings_per_token = true;
  auto sink = Make(options, AnswerKind::kCompletion);
  sink->OnText("", {EmittedToken{1}});
  sink->OnText("a", {EmittedToken{2}});
  const auto events = Events(writer_->body);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(Data(events[0])["timings"]["predicted_n"], 1);
  EXPECT_EQ(Data(events[1])["timings"]["predicted_n"], 2);
}

TEST_F(StreamedSink, MovesTextOffsetsByTokenBytes) {
  AnswerOptions options;
  options.logprobs = true;
  auto sink = Make(options, AnswerKind::kCompletion);
  sink->OnText("ab", {EmittedToken{'a'}, EmittedToken{'b'}});
  sink->OnText("c", {EmittedToken{'c'}});
  const auto events = Events(writer_->body);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(Data(events[1])["choices"][0]["logprobs"]["text_offset"][0], 2);
}

TEST(WholeSink, JoinsTextAndSendsOnce) {
  auto writer = std::make_shared<RecordingWriter>();
  AnswerContext context;
  context.model = MakeByteModel();
  WholeAnswerSink sink(context, writer);
  sink.OnText("he", {});
  sink.OnText("llo", {});
  EXPECT_FALSE(writer->sent.has_value());
  sink.OnEnd(GenerationReport());
  ASSERT_TRUE(writer->sent.has_value());
  EXPECT_EQ(Json::parse(writer->sent->body)["choices"][0]["message"]["content"],
            "hello");
}

class MeasuredExchange : public ::testing::Test {
 protected:
  std::shared_ptr<MeasuredWriter> Make() {
    return std::make_shared<MeasuredWriter>(
        inner_,
        std::make_shared<HttpMetrics>(metrics_.get(),
                                      std::make_shared<SystemClock>()),
        "/r", "first-id");
  }
  std::string Total(const std::string& code) {
    return "baton_http_requests_total{code=\"" + code + "\",route=\"/r\"} ";
  }
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("gateway");
  std::shared_ptr<RecordingWriter> inner_ = std::make_shared<RecordingWriter>();
};

TEST_F(MeasuredExchange, CountsAPlainAnswerByItsStatus) {
  http::Response response;
  response.status = 404;
  auto writer = Make();
  writer->SetRequestId("own-id");
  writer->Send(response);
  writer.reset();
  EXPECT_THAT(metrics_->Exposition(), HasSubstr(Total("404") + "1"));
  EXPECT_THAT(metrics_->Exposition(), Not(HasSubstr(Total("499"))));
  EXPECT_THAT(inner_->sent->headers,
              ::testing::Contains(::testing::Pair("x-request-id", "own-id")));
}

TEST_F(MeasuredExchange, CountsAStreamAtItsEnd) {
  auto writer = Make();
  writer->Begin(http::Response());
  EXPECT_THAT(metrics_->Exposition(), Not(HasSubstr("route=\"/r\"")));
  writer->Finish();
  EXPECT_THAT(metrics_->Exposition(), HasSubstr(Total("200") + "1"));
}

TEST_F(MeasuredExchange, CountsALeavingClientAs499AndNothingElse) {
  auto writer = Make();
  bool told = false;
  writer->OnClosed([&] { told = true; });
  inner_->closed();
  EXPECT_TRUE(told);
  http::Response late;
  late.status = 500;
  writer->Send(late);
  EXPECT_THAT(metrics_->Exposition(), HasSubstr(Total("499") + "1"));
  EXPECT_THAT(metrics_->Exposition(), Not(HasSubstr(Total("500"))));
}

TEST(RouteTable, FindsRoutesArgumentsAndAllowedMethods) {
  RouteTable routes;
  routes.Add("POST", "/a", [](Call) {});
  routes.Add("GET", "/m", [](Call) {});
  routes.Add("GET", "/m/{id}", [](Call) {});
  EXPECT_EQ(routes.Find("POST", "/a").route, &routes.routes()[0]);
  EXPECT_EQ(routes.Find("HEAD", "/m").route, &routes.routes()[1]);
  EXPECT_EQ(routes.Find("GET", "/a").route, nullptr);
  EXPECT_EQ(routes.Find("GET", "/a").allowed, "POST");
  EXPECT_EQ(routes.Find("PUT", "/m").allowed, "GET, HEAD");
  EXPECT_EQ(routes.Find("GET", "/nothing").allowed, "");
  EXPECT_EQ(routes.Find("GET", "/m/").route, nullptr);
  const RouteTable::Match match = routes.Find("GET", "/m/org/na%20me%2");
  EXPECT_EQ(match.route, &routes.routes()[2]);
  EXPECT_EQ(match.argument, "org/na me%2");
}

}  // namespace
}  // namespace baton::gateway
