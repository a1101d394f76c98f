// The HTTP front over real loopback sockets, with a generator that the test
// drives.
#include "gateway/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gateway/http/json_reader.h"
#include "services/base/error_details.h"
#include "tests/support/fake_generator.h"
#include "tests/support/fake_served_model.h"
#include "tests/support/http_client.h"

namespace baton::gateway {
namespace {

using http::Client;
using http::ClientResponse;
using http::GetRequest;
using http::PostRequest;
using ::testing::HasSubstr;

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kHello[] = R"({"messages":[{"role":"user","content":"hi"}]})";
constexpr char kHelloStream[] =
    R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

void AnswerHello(const GenerationSpec& spec, GenerationSink* sink) {
  sink->OnProgress(spec.prompt.size(), spec.prompt.size());
  sink->OnText("hel", {EmittedToken{'h'}, EmittedToken{'e'}});
  sink->OnText("lo", {EmittedToken{'l'}, EmittedToken{'o'}});
  GenerationReport report;
  report.prompt_tokens = spec.prompt.size();
  report.completion_tokens = 4;
  report.decode_worker = "d0";
  sink->OnEnd(report);
}

class HttpFront : public ::testing::Test {
 protected:
  void SetUp() override { StartServer(); }

  void StartServer() {
    server_.reset();
    auto server =
        HttpServer::Start(options_, &generator_, &builder_, &models_,
                          metrics_.get(), [this] { return ready_.load(); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ClientResponse Ask(const std::string& request) {
    Client client(server_->port());
    client.Send(request);
    return client.ReadResponse();
  }

  Json Post(const char* path, const std::string& body) {
    return Json::parse(Ask(PostRequest(path, body)).body, nullptr, false);
  }

  std::atomic<bool> ready_ = true;
  SystemClock clock_;
  FakeModelSource models_{MakeByteModel()};
  RequestBuilder builder_{RequestBuilder::Options(), &models_, &clock_};
  FakeGenerator generator_;
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("gateway");
  HttpServer::Options options_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpFront, AnswersAChatAtOnce) {
  generator_.SetScript(AnswerHello);
  const ClientResponse response =
      Ask(PostRequest(kChat, kHello, "x-request-id: mine-1\r\n"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("x-request-id"), "mine-1");
  const Json answer = Json::parse(response.body);
  EXPECT_EQ(answer["id"], "mine-1");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "hello");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
  EXPECT_EQ(answer["seed"], generator_.spec(0).sampling.seed.value());
  EXPECT_EQ(answer["baton"]["decode_worker"], "d0");
}

TEST_F(HttpFront, MintsARequestIdThatIsAlsoTheAnswersId) {
  generator_.SetScript(AnswerHello);
  const ClientResponse response =
      Ask(PostRequest(kChat, kHello, "x-request-id: not\ta token\r\n"));
  EXPECT_EQ(response.status, 200);
  const std::string id = response.headers.at("x-request-id");
  EXPECT_THAT(id, ::testing::StartsWith("chatcmpl-"));
  EXPECT_EQ(Json::parse(response.body)["id"], id);
}

TEST_F(HttpFront, StreamsAChat) {
  generator_.SetScript(AnswerHello);
  const ClientResponse response = Ask(PostRequest(kChat, kHelloStream));
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.headers.count("x-request-id"), 1u);
  EXPECT_THAT(response.body, HasSubstr("\"content\":\"hel\""));
  EXPECT_THAT(response.body, HasSubstr("\"finish_reason\":\"stop\""));
  EXPECT_THAT(response.body, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(HttpFront, StreamsEachTokenAsItComes) {
  Client client(server_->port());
  client.Send(
      PostRequest("/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  generator_.sink(0)->OnText("one", {EmittedToken{1}});
  EXPECT_THAT(client.ReadUntil("\"text\":\"one\"}"), HasSubstr("200 OK"));
  generator_.sink(0)->OnText("two", {EmittedToken{2}});
  EXPECT_NE(client.ReadUntil("\"text\":\"two\"}"), "");
  generator_.sink(0)->OnEnd(GenerationReport());
  EXPECT_NE(client.ReadUntil("[DONE]"), "");
}

TEST_F(HttpFront, CancelsAStreamWhoseClientLeaves) {
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  generator_.sink(0)->OnText("one", {EmittedToken{1}});
  ASSERT_NE(client.ReadUntil("\"one\""), "");
  client.Close();
  EXPECT_TRUE(generator_.AwaitCancels(1));
  EXPECT_THAT(metrics_->Exposition(),
              HasSubstr("baton_http_requests_total{code=\"499\",route=\"/v1/"
                        "chat/completions\"} 1"));
}

TEST_F(HttpFront, CancelsAPlainAnswerWhoseClientLeavesBeforeAnyText) {
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHello));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  client.Close();
  EXPECT_TRUE(generator_.AwaitCancels(1));
}

// Long before its next ping would be due.
TEST_F(HttpFront, CancelsAStreamWhoseClientLeavesBeforeAnyText) {
  options_.ping_interval = absl::Hours(1);
  StartServer();
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  client.Close();
  EXPECT_TRUE(generator_.AwaitCancels(1));
}

TEST_F(HttpFront, CancelsAStreamWhoseReaderStops) {
  options_.listener.limits.write_timeout = absl::Milliseconds(100);
  StartServer();
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  auto sink = generator_.sink(0);
  for (int i = 0; i < 16; ++i) {
    sink->OnText(std::string(1 << 20, 'x'), {EmittedToken{1}});
  }
  EXPECT_TRUE(generator_.AwaitCancels(1));
}

TEST_F(HttpFront, AnswersClientsThatOnlyEndedTheirSendingSide) {
  options_.ping_interval = absl::Hours(1);
  StartServer();
  for (size_t i = 0; const char* body : {kHello, kHelloStream}) {
    Client client(server_->port());
    client.Send(PostRequest(kChat, body));
    client.CloseSending();
    ASSERT_TRUE(generator_.AwaitStarts(i + 1));
    // The probes: the client's end has been seen.
    const char* probe = i == 0 ? "100 Continue\r\n\r\n" : ": ping\n\n";
    EXPECT_NE(client.ReadUntil(probe), "");
    AnswerHello(generator_.spec(i), generator_.sink(i).get());
    EXPECT_NE(client.ReadUntil(i == 0 ? "\"hello\"" : "[DONE]"), "");
    ++i;
  }
  EXPECT_EQ(generator_.cancels(), 0u);
}

TEST_F(HttpFront, DoesNotCancelWhatHasEnded) {
  generator_.SetScript(AnswerHello);
  {
    Client client(server_->port());
    client.Send(PostRequest(kChat, kHello));
    EXPECT_EQ(client.ReadResponse().status, 200);
  }
  server_->Stop(absl::ZeroDuration());
  EXPECT_EQ(generator_.cancels(), 0u);
}

TEST_F(HttpFront, PingsASilentStreamAndThenReportsErrorsInIt) {
  options_.ping_interval = absl::Milliseconds(20);
  StartServer();
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  EXPECT_THAT(client.ReadUntil(": ping\n\n"), HasSubstr("200 OK"));
  EXPECT_NE(client.ReadUntil(": ping\n\n"), "");
  ASSERT_TRUE(generator_.AwaitStarts(1));
  generator_.sink(0)->OnError(absl::DataLossError("crc"));
  EXPECT_THAT(client.ReadUntil("[DONE]"), HasSubstr("\"kv_corrupt\""));
}

TEST_F(HttpFront, GivesRefusalsTheirStatusAlsoForStreams) {
  generator_.SetScript([](const GenerationSpec&, GenerationSink* sink) {
    sink->OnError(WithRetryAfter(
        WithReason(absl::ResourceExhaustedError("full"), "queue_full"),
        absl::Milliseconds(2500)));
  });
  for (const char* body : {kHello, kHelloStream}) {
    const ClientResponse response = Ask(PostRequest(kChat, body));
    EXPECT_EQ(response.status, 429);
    EXPECT_EQ(response.headers.at("retry-after"), "3");
    EXPECT_EQ(response.headers.at("retry-after-ms"), "2500");
    EXPECT_EQ(Json::parse(response.body)["error"]["code"], "queue_full");
  }
}

struct BadBody {
  std::string body;
  int status;
  const char* code;
  Json param;
};

TEST_F(HttpFront, RefusesBadBodiesWithAnErrorObject) {
  const std::string long_chat = R"({"messages":[{"role":"user","content":")" +
                                std::string(5000, 'a') + R"("}]})";
  const BadBody cases[] = {
      {"", 400, "invalid_value", nullptr},
      {std::string(10000, '['), 400, "invalid_value", nullptr},
      {std::string(10000, '{'), 400, "invalid_value", nullptr},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}", 400,
       "invalid_value", nullptr},
      {R"({"messages":[{"role":"user","content":"a"}],"temperature":NaN})", 400,
       "invalid_value", nullptr},
      {R"({"messages":[{"role":"user","content":"a"}],"temperature":-1})", 400,
       "invalid_value", "temperature"},
      {R"({"messages":[{"role":"user","content":"a"}],"n":2})", 400,
       "invalid_value", "n"},
      {R"({"messages":[{"role":"user","content":"a"}],"max_tokens":99999})",
       400, "context_length_exceeded", "max_tokens"},
      {R"({"messages":[{"role":"user","content":"a"}],"model":"other"})", 404,
       "model_not_found", "model"},
      {R"({"messages":[{"role":"user","content":"raise"}]})", 400,
       "invalid_value", "messages"},
      {R"({"messages":[{"role":"user","content":"a"}],
           "chat_template_kwargs":{"bad":1}})",
       400, "invalid_value", "chat_template_kwargs"},
      {R"({"messages":[{"role":"user","content":"a"}],
           "max_completion_tokens":0})",
       400, "invalid_value", "max_completion_tokens"},
      {R"({"messages":[{"role":"user","content":"a"}],
           "max_tokens":1,"max_completion_tokens":99999})",
       400, "context_length_exceeded", "max_completion_tokens"},
      {R"({"messages":[{"role":"user","content":"a"}],"repeat_penalty":0})",
       400, "invalid_value", "repeat_penalty"},
      {long_chat, 400, "context_length_exceeded", "messages"},
  };
  for (const BadBody& bad : cases) {
    const ClientResponse response = Ask(PostRequest(kChat, bad.body));
    EXPECT_EQ(response.status, bad.status) << bad.body.substr(0, 90);
    const Json error = Json::parse(response.body, nullptr, false)["error"];
    EXPECT_EQ(error["code"], bad.code) << response.body;
    EXPECT_EQ(error["param"], bad.param) << response.body;
  }
  EXPECT_EQ(generator_.starts(), 0u);
}

TEST_F(HttpFront, SaysLoadingWhileThereIsNoModel) {
  models_.Set(nullptr);
  ready_ = false;
  const ClientResponse response = Ask(PostRequest(kChat, kHello));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(Json::parse(response.body)["error"]["code"], "model_loading");
  EXPECT_EQ(response.headers.count("retry-after"), 1u);
  EXPECT_EQ(Ask(GetRequest("/v1/health")).status, 503);
  EXPECT_EQ(Ask(GetRequest("/livez")).status, 200);
  EXPECT_TRUE(Json::parse(Ask(GetRequest("/v1/models")).body)["data"].empty());
  EXPECT_EQ(Ask(GetRequest("/v1/models/x")).status, 503);
}

TEST_F(HttpFront, SaysWhyTheModelCannotBeUsed) {
  models_.Set(nullptr);
  models_.SetProblem(absl::UnimplementedError("pre-tokenizer x"));
  ready_ = false;
  const ClientResponse response = Ask(PostRequest(kChat, kHello));
  EXPECT_EQ(response.status, 503);
  const Json error = Json::parse(response.body)["error"];
  EXPECT_EQ(error["code"], "model_unusable");
  EXPECT_NE(error["message"].get<std::string>().find("pre-tokenizer x"),
            std::string::npos);
  EXPECT_EQ(response.headers.count("retry-after"), 1u);
  EXPECT_EQ(Ask(GetRequest("/readyz")).status, 503);
}

TEST_F(HttpFront, DescribesTheModelUnderAllNamesOfItsContext) {
  const Json list = Json::parse(Ask(GetRequest("/v1/models")).body);
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "byte-model");
  const Json model =
      Json::parse(Ask(GetRequest("/v1/models/org%2Falias")).body);
  EXPECT_EQ(model["id"], "org/alias");
  for (const char* field : {"max_model_len", "context_length", "max_tokens"}) {
    EXPECT_EQ(model[field], 4096) << field;
  }
  EXPECT_EQ(model["meta"]["n_ctx"], 4096);
  EXPECT_EQ(model["meta"]["n_params"], 1234);
  EXPECT_EQ(Ask(GetRequest("/v1/models/none")).status, 404);
}

TEST_F(HttpFront, TokenizesAndBack) {
  EXPECT_EQ(
      Post("/tokenize", R"({"content":"ab","add_special":true})")["tokens"],
      Json::parse("[256,97,98]"));
  const Json pieces =
      Post("/tokenize", "{\"content\":\"a\xc3\xa9\",\"with_pieces\":true}");
  EXPECT_EQ(pieces["tokens"][0], Json::parse(R"({"id":97,"piece":"a"})"));
  EXPECT_EQ(pieces["tokens"][1], Json::parse(R"({"id":195,"piece":[195]})"));
  EXPECT_EQ(Post("/detokenize", R"({"tokens":[97,98]})")["content"], "ab");
  EXPECT_EQ(Post("/apply-template", kHello)["prompt"], "<user>hi<assistant>");
  for (const char* body : {R"({"tokens":[999]})", "{}", "[]"}) {
    EXPECT_EQ(Ask(PostRequest("/detokenize", body)).status, 400) << body;
    EXPECT_EQ(Ask(PostRequest("/tokenize", body)).status, 400) << body;
  }
  EXPECT_EQ(Post("/apply-template",
                 R"({"messages":[{"role":"user","content":"a"}],
                     "chat_template":"x"})")["error"]["param"],
            "chat_template");
}

TEST_F(HttpFront, AnswersUnknownPathsAndMethodsInJson) {
  for (const char* path : {"/", "/v1/embeddings", "/props", "/api/tags",
                           "/v1/chat/completions/", "//v1/models"}) {
    const ClientResponse response = Ask(GetRequest(path));
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_EQ(Json::parse(response.body)["error"]["code"], "not_found");
  }
  const ClientResponse get = Ask(GetRequest(kChat));
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(get.headers.at("allow"), "POST");
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "BREW"}) {
    const ClientResponse odd = Ask(GetRequest("/v1/models", "", method));
    EXPECT_EQ(odd.status, 405) << method;
    EXPECT_EQ(odd.headers.at("allow"), "GET, HEAD");
  }
}

TEST_F(HttpFront, AnswersHeadWithoutABody) {
  Client client(server_->port());
  client.Send(GetRequest("/health", "", "HEAD"));
  const ClientResponse head = client.ReadResponse(/*head_only=*/true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "15");
  client.Send(GetRequest("/health"));
  EXPECT_EQ(client.ReadResponse().body, "{\"status\":\"ok\"}");
}

TEST_F(HttpFront, TakesAbsoluteTargetsAndHttp10) {
  EXPECT_EQ(
      Ask("GET http://evil:1/livez?x=1 HTTP/1.1\r\nhost: a\r\n\r\n").status,
      200);
  generator_.SetScript(AnswerHello);
  const std::string body = kHelloStream;
  const ClientResponse old = Ask(
      absl::StrCat("POST ", kChat, " HTTP/1.0\r\ncontent-length: ", body.size(),
                   "\r\n\r\n", body));
  EXPECT_EQ(old.status, 200);
  EXPECT_EQ(old.headers.count("transfer-encoding"), 0u);
  EXPECT_TRUE(old.complete);
  EXPECT_THAT(old.body, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(HttpFront, CountsRequestsByRouteAndCode) {
  EXPECT_THAT(metrics_->Exposition(),
              HasSubstr("baton_http_requests_total{code=\"200\",route=\"/v1/"
                        "models/{id}\"} 0"));
  Ask(GetRequest("/v1/models/byte-model"));
  Ask(GetRequest("/nothing"));
  const std::string text = Ask(GetRequest("/metrics")).body;
  EXPECT_THAT(text, HasSubstr("baton_http_requests_total{code=\"200\",route="
                              "\"/v1/models/{id}\"} 1"));
  EXPECT_THAT(text, HasSubstr("baton_http_requests_total{code=\"404\",route="
                              "\"other\"} 1"));
}

TEST_F(HttpFront, CancelsWhatRunsWhenItStops) {
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  server_->Stop(absl::ZeroDuration());
  EXPECT_TRUE(generator_.AwaitCancels(1));
  EXPECT_FALSE(Client(server_->port()).connected());
}

TEST_F(HttpFront, LetsAnswersEndWithinTheGrace) {
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  generator_.sink(0)->OnText("a", {EmittedToken{1}});
  ASSERT_NE(client.ReadUntil("\"a\""), "");
  std::jthread stopper([this] { server_->Stop(absl::Seconds(10)); });
  generator_.sink(0)->OnEnd(GenerationReport());
  EXPECT_NE(client.ReadUntil("[DONE]\n\n\r\n0\r\n\r\n"), "");
  stopper.join();
  EXPECT_EQ(generator_.cancels(), 0u);
}

TEST_F(HttpFront, SurvivesASinkThatOutlivesTheServer) {
  Client client(server_->port());
  client.Send(PostRequest(kChat, kHelloStream));
  ASSERT_TRUE(generator_.AwaitStarts(1));
  auto sink = generator_.sink(0);
  server_.reset();
  sink->OnText("late", {EmittedToken{1}});
  sink->OnEnd(GenerationReport());
}

}  // namespace
}  // namespace baton::gateway
