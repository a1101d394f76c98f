#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gateway/http/answer_codec.h"
#include "gateway/http/error_codec.h"
#include "services/base/error_details.h"
#include "tests/support/fake_served_model.h"

namespace baton::gateway {
namespace {

AnswerContext Context(AnswerKind kind) {
  AnswerContext context;
  context.kind = kind;
  context.id = "id-1";
  context.created_unix_seconds = 1700000001;
  context.seed = 42;
  context.model = MakeByteModel();
  return context;
}

GenerationReport Report() {
  GenerationReport report;
  report.finish_reason = FinishReason::kLength;
  report.prompt_tokens = 100;
  report.completion_tokens = 11;
  report.sources = {30, 20, 50};
  report.prefill = absl::Milliseconds(60);
  report.decode = absl::Milliseconds(200);
  report.handoff = absl::Milliseconds(3);
  report.handoff_bytes = 4096;
  report.prefill_worker = "p0";
  report.decode_worker = "d0";
  report.resumes = 1;
  report.corrupt_blocks = 2;
  report.route_reason = "disaggregated";
  return report;
}

EmittedToken Token(TokenId id, float logprob) {
  EmittedToken token;
  token.token = id;
  token.logprob = logprob;
  token.top_logprobs = {{id, logprob}, {0xff, -3.0f}};
  return token;
}

TEST(AnswerCodec, CountsEveryPromptTokenOnce) {
  const Json usage = Usage(Report());
  EXPECT_EQ(usage["prompt_tokens"], 100);
  EXPECT_EQ(usage["completion_tokens"], 11);
  EXPECT_EQ(usage["total_tokens"], 111);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 70);
}

TEST(AnswerCodec, ReportsPromptAndGenerationSpeedApart) {
  const Json timings = Timings(Report());
  EXPECT_EQ(timings["cache_n"], 70);
  EXPECT_EQ(timings["prompt_n"], 30);
  EXPECT_DOUBLE_EQ(timings["prompt_per_second"].get<double>(), 500);
  EXPECT_EQ(timings["predicted_n"], 11);
  // Ten steps lie between eleven tokens.
  EXPECT_DOUBLE_EQ(timings["predicted_per_second"].get<double>(), 50);
}

TEST(AnswerCodec, GivesNoRateThatWasNotMeasured) {
  GenerationReport report;
  report.completion_tokens = 1;
  const Json timings = Timings(report);
  EXPECT_EQ(timings.count("predicted_per_second"), 0u);
  EXPECT_EQ(timings.count("prompt_per_second"), 0u);
}

TEST(AnswerCodec, TellsHowTheClusterRanIt) {
  const Json baton = FinishChunk(Context(AnswerKind::kChat), Report())["baton"];
  EXPECT_EQ(baton, Json::parse(R"({"prefill_worker":"p0","decode_worker":"d0",
      "sources":{"computed":30,"local_cache":20,"kv_store":50},"resumes":1,
      "handoff_ms":3.0,"handoff_bytes":4096,"route":"disaggregated",
      "corrupt_blocks":2})"));
}

TEST(AnswerCodec, BuildsAWholeChatAnswer) {
  const Json answer =
      WholeAnswer(Context(AnswerKind::kChat), "hello", {}, Report());
  EXPECT_EQ(answer["id"], "id-1");
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["created"], 1700000001);
  EXPECT_EQ(answer["model"], "byte-model");
  EXPECT_EQ(answer["system_fingerprint"], "abcdef012345");
  EXPECT_EQ(answer["seed"], 42);
  ASSERT_EQ(answer["choices"].size(), 1u);
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "hello");
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["logprobs"].is_null());
}

TEST(AnswerCodec, BuildsAWholeCompletionAnswer) {
  const Json answer =
      WholeAnswer(Context(AnswerKind::kCompletion), "hello", {}, Report());
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"][0]["text"], "hello");
  EXPECT_EQ(answer["choices"][0].count("message"), 0u);
}

TEST(AnswerCodec, PutsUsageOnlyIntoItsOwnChunk) {
  AnswerContext context = Context(AnswerKind::kChat);
  EXPECT_EQ(TextChunk(context, "a", {}, 0).count("usage"), 0u);
  context.options.include_usage = true;
  EXPECT_TRUE(TextChunk(context, "a", {}, 0).at("usage").is_null());
  EXPECT_TRUE(FinishChunk(context, Report()).at("usage").is_null());
  const Json last = UsageChunk(context, Report());
  EXPECT_TRUE(last["choices"].is_array());
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["total_tokens"], 111);
}

TEST(AnswerCodec, GivesEveryChunkAnIndexAndADelta) {
  const AnswerContext context = Context(AnswerKind::kChat);
  const Json role = RoleChunk(context);
  EXPECT_EQ(role["object"], "chat.completion.chunk");
  EXPECT_EQ(role["choices"][0]["delta"],
            Json::parse(R"({"role":"assistant","content":""})"));
  const Json text = TextChunk(context, "hi", {}, 0);
  EXPECT_EQ(text["choices"][0]["index"], 0);
  EXPECT_EQ(text["choices"][0]["delta"], Json::parse(R"({"content":"hi"})"));
  EXPECT_TRUE(text["choices"][0]["finish_reason"].is_null());
  const Json finish = FinishChunk(context, Report());
  EXPECT_EQ(finish["choices"][0]["delta"], Json::object());
  EXPECT_EQ(finish["choices"][0]["finish_reason"], "length");
}

TEST(AnswerCodec, WritesChatLogprobsWithBytes) {
  AnswerContext context = Context(AnswerKind::kChat);
  context.options.logprobs = true;
  const Json chunk = TextChunk(context, "A", {Token('A', -0.5f)}, 0);
  const Json entry = chunk["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "A");
  EXPECT_EQ(entry["logprob"], -0.5);
  EXPECT_EQ(entry["bytes"], Json::array({65}));
  ASSERT_EQ(entry["top_logprobs"].size(), 2u);
  EXPECT_EQ(entry["top_logprobs"][1]["bytes"], Json::array({255}));
  EXPECT_EQ(entry["top_logprobs"][1]["logprob"], -3.0);
}

TEST(AnswerCodec, WritesCompletionLogprobsAsColumns) {
  AnswerContext context = Context(AnswerKind::kCompletion);
  context.options.logprobs = true;
  const Json answer = WholeAnswer(
      context, "AB", {Token('A', -0.5f), Token('B', -1.5f)}, Report());
  const Json logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["A","B"])"));
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[-0.5,-1.5]"));
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0,1]"));
  EXPECT_EQ(logprobs["top_logprobs"][1]["B"], -1.5);
}

struct ErrorRow {
  absl::Status status;
  int http;
  const char* type;
  const char* code;  // "" = null
};

TEST(ErrorCodec, FollowsTheErrorTable) {
  const ErrorRow rows[] = {
      {absl::InvalidArgumentError("m"), 400, "invalid_request_error",
       "invalid_value"},
      {WithReason(absl::InvalidArgumentError("m"), "context_length_exceeded"),
       400, "invalid_request_error", "context_length_exceeded"},
      {absl::UnauthenticatedError("m"), 401, "authentication_error",
       "invalid_api_key"},
      {absl::PermissionDeniedError("m"), 403, "permission_error", ""},
      {absl::NotFoundError("m"), 404, "invalid_request_error",
       "model_not_found"},
      {WithReason(absl::ResourceExhaustedError("m"), "request_too_large"), 413,
       "invalid_request_error", "request_too_large"},
      {absl::ResourceExhaustedError("m"), 429, "rate_limit_error",
       "queue_full"},
      {WithReason(absl::UnavailableError("m"), "model_loading"), 503,
       "unavailable_error", "model_loading"},
      {WithReason(absl::UnavailableError("m"), "draining"), 503,
       "unavailable_error", "draining"},
      {absl::UnavailableError("m"), 503, "unavailable_error", "no_worker"},
      {absl::DeadlineExceededError("m"), 504, "timeout_error", ""},
      {absl::DataLossError("m"), 500, "server_error", "kv_corrupt"},
      {absl::AbortedError("m"), 500, "server_error", "worker_lost"},
      {absl::InternalError("m"), 500, "server_error", ""},
  };
  for (const ErrorRow& row : rows) {
    const http::Response response = ErrorResponse(row.status);
    EXPECT_EQ(response.status, row.http) << row.status;
    const Json error = Json::parse(response.body).at("error");
    EXPECT_EQ(error.size(), 4u);
    EXPECT_EQ(error["message"], "m");
    EXPECT_EQ(error["type"], row.type) << row.status;
    EXPECT_TRUE(error["param"].is_null());
    if (*row.code == '\0') {
      EXPECT_TRUE(error["code"].is_null()) << row.status;
    } else {
      EXPECT_EQ(error["code"], row.code) << row.status;
    }
    const bool retried = row.http == 429 || row.http == 503;
    EXPECT_EQ(!response.headers.empty(), retried) << row.status;
  }
}

TEST(ErrorCodec, RoundsTheRetryHintUpToSeconds) {
  const http::Response response = ErrorResponse(WithRetryAfter(
      absl::ResourceExhaustedError("full"), absl::Milliseconds(1200)));
  EXPECT_THAT(response.headers, ::testing::ElementsAre(
                                    ::testing::Pair("retry-after", "2"),
                                    ::testing::Pair("retry-after-ms", "1200")));
}

TEST(ErrorCodec, NamesTheFieldAndCutsTheMessage) {
  const Json error = ErrorObject(WithField(
      absl::InvalidArgumentError(std::string(5000, 'x')), "stop"))["error"];
  EXPECT_EQ(error["param"], "stop");
  EXPECT_EQ(error["message"].get<std::string>().size(), 1024u);
}

}  // namespace
}  // namespace baton::gateway
