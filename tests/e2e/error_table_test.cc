// Every row of the error table (but authentication) over real processes: the
// HTTP status, the error object's type and code, the retry hint. What a
// request's own contents can do wrong is in http_server_test; here are the
// rows that the state of a cluster causes, and one of each other kind to show
// that the table survives the way through four processes.
#include <gtest/gtest.h>
#include <poll.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "absl/strings/numbers.h"
#include "services/cli/cluster/child_process.h"
#include "services/cli/cluster/listening_line.h"
#include "tests/support/cluster_process.h"
#include "tests/support/http_client.h"
#include "tests/support/token_client.h"

namespace baton {
namespace {

using http::Client;
using http::ClientResponse;
using http::PostRequest;
using nlohmann::json;
using testing_support::Await;
using testing_support::ClusterProcess;
using testing_support::Complete;
using testing_support::RandomPrompt;
using testing_support::TokenAnswer;
using testing_support::TokenRequest;

constexpr char kCompletions[] = "/v1/completions";

uint16_t PortOf(const std::string& address) {
  uint32_t port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port))
      << address;
  return static_cast<uint16_t>(port);
}

ClientResponse Ask(uint16_t port, const std::string& body,
                   const char* path = kCompletions) {
  Client client(port);
  EXPECT_TRUE(client.connected());
  client.Send(PostRequest(path, body));
  return client.ReadResponse();
}

void ExpectError(const ClientResponse& response, int status, const char* type,
                 const json& code) {
  EXPECT_EQ(response.status, status) << response.body;
  const json body = json::parse(response.body, nullptr, false);
  ASSERT_TRUE(body.is_object() && body.contains("error")) << response.body;
  const json& error = body["error"];
  EXPECT_EQ(error["type"], type) << response.body;
  EXPECT_EQ(error["code"], code) << response.body;
  EXPECT_TRUE(error["message"].is_string() && error.contains("param"));
  const bool hint = status == 429 || status == 503;
  EXPECT_EQ(response.headers.count("retry-after"), hint ? 1u : 0u);
}

// A body that keeps a sequence busy for `max_tokens` tokens.
std::string LongBody(int max_tokens, bool stream) {
  return json{{"prompt", "a long way"},
              {"max_tokens", max_tokens},
              {"ignore_eos", true},
              {"stream", stream}}
      .dump();
}

std::unique_ptr<ClusterProcess> StartCluster(std::vector<std::string> more) {
  ClusterProcess::Options options;
  options.model = BATON_DEMO_MODEL;  // slow enough to be caught at work
  options.more = {"--threads",   "1",  "--kv-memory",      "256MiB",
                  "--lease-ttl", "2s", "--store-capacity", "64MiB"};
  options.more.insert(options.more.end(), more.begin(), more.end());
  auto cluster = ClusterProcess::Start(options);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return cluster.ok() ? std::move(*cluster) : nullptr;
}

TEST(ErrorTable, ContentsOfARequest) {
  auto cluster = StartCluster({});
  ASSERT_NE(cluster, nullptr);
  const uint16_t port = PortOf(cluster->HttpAddress("gateway"));
  const char* kInvalid = "invalid_request_error";
  ExpectError(Ask(port, R"({"prompt":"a","temperature":-1})"), 400, kInvalid,
              "invalid_value");
  ExpectError(Ask(port, R"({"prompt":"a","max_tokens":100000})"), 400, kInvalid,
              "context_length_exceeded");
  std::string words;
  for (int i = 0; i < 9000; ++i) words += " word";
  ExpectError(Ask(port, json{{"prompt", words}, {"max_tokens", 1}}.dump()), 400,
              kInvalid, "context_length_exceeded");
  ExpectError(Ask(port, R"({"prompt":"a","model":"no-such-model"})"), 404,
              kInvalid, "model_not_found");
  ExpectError(Ask(port, std::string(10000, '[')), 400, kInvalid,
              "invalid_value");
  ExpectError(Ask(port, "{\"prompt\":\"\xc3\x28\"}"), 400, kInvalid,
              "invalid_value");
  {
    // A proper client may send all 40 MB before it reads.
    Client client(port);
    const std::string head = absl::StrCat(
        "POST ", kCompletions,
        " HTTP/1.1\r\nhost: test\r\ncontent-length: ", 40 << 20, "\r\n\r\n");
    client.Send(head);
    const std::string part(1 << 20, ' ');
    for (int i = 0; i < 40 && client.Send(part); ++i) {
    }
    ExpectError(client.ReadResponse(), 413, kInvalid, "request_too_large");
  }
  // None of it harmed anything.
  EXPECT_EQ(Ask(port, LongBody(4, false)).status, 200);
}

TEST(ErrorTable, FullQueue) {
  auto cluster = StartCluster(
      {"--gateway-flag=--max-inflight=1", "--gateway-flag=--max-queued=1"});
  ASSERT_NE(cluster, nullptr);
  const uint16_t port = PortOf(cluster->HttpAddress("gateway"));
  Client running(port), queued(port);
  running.Send(PostRequest(kCompletions, LongBody(4000, true)));
  ASSERT_NE(running.ReadUntil("data: "), "");
  queued.Send(PostRequest(kCompletions, LongBody(4, false)));
  ASSERT_TRUE(Await(
      [&] { return cluster->Metric("gateway", "baton_requests_waiting") == 1; },
      absl::Seconds(5)));
  for (const bool stream : {false, true}) {
    ExpectError(Ask(port, LongBody(4, stream)), 429, "rate_limit_error",
                "queue_full");
  }
  TokenRequest request;
  request.prompt = RandomPrompt(1, 8);
  EXPECT_TRUE(absl::IsResourceExhausted(
      Complete(cluster->completions(), request).status));
  // The place of a client that leaves is given to the next one.
  running.Close();
  EXPECT_EQ(queued.ReadResponse().status, 200);
}

TEST(ErrorTable, Deadline) {
  auto cluster = StartCluster({"--gateway-flag=--request-timeout=2s"});
  ASSERT_NE(cluster, nullptr);
  const uint16_t port = PortOf(cluster->HttpAddress("gateway"));
  ExpectError(Ask(port, LongBody(4000, false)), 504, "timeout_error",
              "deadline");
  // A stream that has begun says so inside.
  Client client(port);
  client.Send(PostRequest(kCompletions, LongBody(4000, true)));
  const std::string stream = client.ReadUntil("data: [DONE]");
  EXPECT_NE(stream.find("200 OK"), std::string::npos);
  EXPECT_NE(stream.find("\"timeout_error\""), std::string::npos)
      << stream.substr(stream.size() < 600 ? 0 : stream.size() - 600);
  TokenRequest request;
  request.prompt = RandomPrompt(2, 8);
  request.max_tokens = 4000;
  request.ignore_eos = true;
  const TokenAnswer answer = Complete(cluster->completions(), request);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status)) << answer.status;
  EXPECT_GT(answer.tokens.size(), 0u);
  // Every holder has let go.
  EXPECT_TRUE(Await(
      [&] {
        return cluster->Metric("decode", "baton_requests_running") == 0 &&
               cluster->Metric("gateway", "baton_requests_inflight") == 0;
      },
      absl::Seconds(5)));
}

TEST(ErrorTable, Draining) {
  auto cluster = StartCluster({});
  ASSERT_NE(cluster, nullptr);
  const uint16_t port = PortOf(cluster->HttpAddress("gateway"));
  Client running(port);
  running.Send(PostRequest(kCompletions, LongBody(150, true)));
  ASSERT_NE(running.ReadUntil("data: "), "");
  kill(cluster->Pid("gateway"), SIGTERM);
  ASSERT_TRUE(Await([&] { return !cluster->AwaitReady(absl::ZeroDuration()); },
                    absl::Seconds(5)));
  ExpectError(Ask(port, LongBody(4, false)), 503, "unavailable_error",
              "draining");
  // The stream that runs is finished whole.
  const std::string rest = running.ReadUntil("data: [DONE]");
  EXPECT_NE(rest.find("\"finish_reason\":\"length\""), std::string::npos)
      << rest.substr(rest.size() < 600 ? 0 : rest.size() - 600);
}

// With its only decode worker gone for longer than the gateway will wait.
TEST(ErrorTable, LostWorker) {
  auto cluster = StartCluster({"--gateway-flag=--resume-timeout=10ms",
                               "--gateway-flag=--poll-timeout=500ms"});
  ASSERT_NE(cluster, nullptr);
  const uint16_t port = PortOf(cluster->HttpAddress("gateway"));
  const pid_t pid = cluster->Pid("decode");
  kill(pid, SIGSTOP);
  ASSERT_TRUE(Await([&] { return !cluster->AwaitReady(absl::ZeroDuration()); },
                    absl::Seconds(10)));
  ExpectError(Ask(port, LongBody(4, false)), 503, "unavailable_error",
              "no_worker");
  kill(pid, SIGCONT);
  ASSERT_TRUE(cluster->AwaitReady(absl::Seconds(10)));
  Client running(port);
  running.Send(PostRequest(kCompletions, LongBody(4000, true)));
  ASSERT_NE(running.ReadUntil("data: "), "");
  kill(pid, SIGKILL);
  const std::string rest = running.ReadUntil("data: [DONE]");
  EXPECT_NE(rest.find("\"worker_lost\""), std::string::npos)
      << rest.substr(rest.size() < 600 ? 0 : rest.size() - 600);
  // It comes back by itself.
  ASSERT_TRUE(cluster->AwaitReady(absl::Seconds(20)));
  EXPECT_EQ(Ask(port, LongBody(4, false)).status, 200);
}

// A gateway alone: without a model it is loading, with one it has no worker.
TEST(ErrorTable, GatewayAlone) {
  for (const bool model : {false, true}) {
    cli::ChildProcess::Options options;
    options.binary = std::string(BATON_BINARY_DIR) + "/baton-gateway";
    options.arguments = {"--grpc",      "127.0.0.1:0",      "--http",
                         "127.0.0.1:0", "--resume-timeout", "1s"};
    if (model) {
      options.arguments.push_back("--model");
      options.arguments.push_back(BATON_DEMO_MODEL);
    }
    options.log_path = "/dev/null";
    auto gateway = cli::ChildProcess::Start(options);
    ASSERT_TRUE(gateway.ok()) << gateway.status();
    std::optional<cli::Listening> listening;
    ASSERT_TRUE(Await(
        [&] {
          for (const std::string& line : gateway->TakeLines()) {
            if (auto parsed = cli::ParseListeningLine(line)) {
              listening = parsed;
            }
          }
          return listening.has_value();
        },
        absl::Seconds(20)));
    const uint16_t port = PortOf(listening->http);
    ExpectError(Ask(port, LongBody(4, false)), 503, "unavailable_error",
                model ? "no_worker" : "model_loading");
  }
}

}  // namespace
}  // namespace baton
