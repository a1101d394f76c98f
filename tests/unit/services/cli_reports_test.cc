#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "services/cli/bench/load.h"
#include "services/cli/bench/report.h"
#include "services/cli/client/answer.h"
#include "services/cli/client/http_chat_client.h"
#include "services/cli/demo_report.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

size_t Words(const std::string& text) {
  return std::vector<std::string>(absl::StrSplit(text, ' ')).size();
}

TEST(BenchLoadTest, APromptIsAFunctionOfSeedAndRequest) {
  EXPECT_EQ(MakePrompt(1, 5, 40, 10), MakePrompt(1, 5, 40, 10));
  EXPECT_NE(MakePrompt(1, 5, 40, 10), MakePrompt(2, 5, 40, 10));
  EXPECT_EQ(Words(MakePrompt(1, 5, 40, 10)), 40u);
}

TEST(BenchLoadTest, RequestsShareExactlyTheSharedWords) {
  const std::vector<std::string> a =
      absl::StrSplit(MakePrompt(1, 0, 60, 20), ' ');
  const std::vector<std::string> b =
      absl::StrSplit(MakePrompt(1, 1, 60, 20), ' ');
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 20, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 20, a.end(), b.begin() + 20));
  EXPECT_EQ(Words(MakePrompt(1, 0, 5, 20)), 5u);
}

TEST(BenchLoadTest, ArrivalsAscendWithTheAskedRate) {
  const auto arrivals = PoissonArrivals(3, 50, 5000);
  ASSERT_EQ(arrivals.size(), 5000u);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  // 5000 gaps of mean 20 ms: 100 s, standard deviation 1.4 s.
  EXPECT_NEAR(absl::ToDoubleSeconds(arrivals.back()), 100, 7);
  EXPECT_EQ(arrivals, PoissonArrivals(3, 50, 5000));
  EXPECT_NE(arrivals, PoissonArrivals(4, 50, 5000));
}

TEST(BenchReportTest, PercentilesAreValuesThatOccurred) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(Percentile(values, 50), 50);
  EXPECT_EQ(Percentile(values, 90), 90);
  EXPECT_EQ(Percentile(values, 99), 99);
  EXPECT_EQ(Percentile({7}, 99), 7);
  EXPECT_EQ(Percentile({}, 50), 0);
}

RequestSample Sample() {
  RequestSample sample;
  sample.first_token = 0.5;
  sample.total = 1.5;
  sample.gaps = {0.25, 0.25, 0.25, 0.25};
  sample.prompt_tokens = 100;
  sample.cached_tokens = 40;
  sample.completion_tokens = 5;
  return sample;
}

TEST(BenchReportTest, CountsFailuresApartFromAnswers) {
  RequestSample failed;
  failed.error = "UNAVAILABLE";
  failed.total = 99;
  const BenchReport report = Summarise({Sample(), failed, Sample()}, 2);
  EXPECT_EQ(report.requests, 3u);
  EXPECT_EQ(report.answered, 2u);
  EXPECT_EQ(report.errors.at("UNAVAILABLE"), 1u);
  EXPECT_EQ(report.total.p99, 1.5);
  EXPECT_EQ(report.inter_token.mean, 0.25);
  EXPECT_EQ(report.tokens_per_second.p50, 4);
  EXPECT_EQ(report.completion_tokens, 10u);

  const auto json = nlohmann::json::parse(ReportJson(report, {{"seed", "1"}}));
  EXPECT_EQ(json["settings"]["seed"], "1");
  EXPECT_EQ(json["error_count"], 1);
  EXPECT_EQ(json["time_to_first_token"]["p50"], 500);
  EXPECT_EQ(json["output_token_throughput"]["avg"], 5);
  EXPECT_EQ(json["cached_share"], 0.4);
  EXPECT_THAT(ReportTable(report),
              HasSubstr("2 of 3 requests answered in 2.00 s"));
  EXPECT_THAT(ReportTable(report), HasSubstr("failed: 1 UNAVAILABLE"));
}

TEST(BenchReportTest, SaysHowLongPromptsWereMeasured) {
  RequestSample longer = Sample();
  longer.prompt_tokens = 140;
  const BenchReport report = Summarise({Sample(), longer}, 2);
  EXPECT_THAT(ReportTable(report),
              HasSubstr("prompt: 240 tokens, 120.0 a request with the chat "
                        "template, 33.3 % cached\n"));
  const auto json = nlohmann::json::parse(ReportJson(report, {}));
  EXPECT_EQ(json["input_sequence_length"]["avg"], 120);
}

TEST(BenchReportTest, ProgressSaysHowFarItIs) {
  EXPECT_EQ(ProgressText({32, 8, 0, 640, 16}),
            "8 of 32 requests, 640 tokens, 40.0 tokens/s");
  EXPECT_EQ(ProgressText({32, 8, 3, 0, 0}),
            "8 of 32 requests, 3 failed, 0 tokens, 0.0 tokens/s");
}

TEST(PromptFileTest, GivesTheLinesThatAreNotEmpty) {
  const std::string path = testing::TempDir() + "/prompts.txt";
  std::ofstream(path) << "one\n\ntwo words\nthree";
  const auto prompts = ReadPromptFile(path);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_THAT(*prompts, ElementsAre("one", "two words", "three"));
}

TEST(PromptFileTest, SaysWhyThereAreNoPrompts) {
  const std::string empty = testing::TempDir() + "/no_prompts.txt";
  std::ofstream(empty) << "\n\n";
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"/nonexistent", "/nonexistent: No such file or directory"},
      {testing::TempDir(), "Is a directory"},
      {empty, "no prompts"}};
  for (const auto& [path, why] : cases) {
    const auto prompts = ReadPromptFile(path);
    ASSERT_FALSE(prompts.ok()) << path;
    EXPECT_THAT(std::string(prompts.status().message()), HasSubstr(why));
  }
}

TEST(BenchReportTest, NoSamplesGiveZerosNotNumbersThatAreNone) {
  const auto json = nlohmann::json::parse(ReportJson(Summarise({}, 0), {}));
  EXPECT_EQ(json["request_throughput"]["avg"], 0);
  EXPECT_EQ(json["cached_share"], 0);
}

TEST(SseReaderTest, GivesTheSamePayloadsHoweverTheStreamIsCut) {
  const std::string stream =
      ": ping\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\n"
      "data: [DONE]\n\n";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    SseReader reader;
    std::vector<std::string> all = reader.Feed(stream.substr(0, cut));
    for (auto& payload : reader.Feed(stream.substr(cut))) {
      all.push_back(payload);
    }
    EXPECT_THAT(all, ElementsAre("{\"a\":1}", "two\nlines", "[DONE]")) << cut;
  }
  SseReader unfinished;
  EXPECT_THAT(unfinished.Feed("data: half"), IsEmpty());
}

TEST(HttpChunkTest, TakesAllThatTheServerSaysOfAnAnswer) {
  Answer answer;
  std::string text;
  AnswerEvents events;
  events.on_text = [&text](absl::string_view piece, uint32_t) {
    text.append(piece.data(), piece.size());
  };
  for (const char* chunk :
       {R"({"choices":[{"delta":{"content":"hello"}}]})",
        R"({"choices":[{"delta":{},"finish_reason":"length"}],
            "timings":{"prompt_n":30,"prompt_ms":10,"predicted_n":5,
                       "predicted_ms":40,"time_to_first_token_ms":12.5,
                       "queue_ms":2}})",
        R"({"choices":[],
            "usage":{"prompt_tokens":40,"completion_tokens":5,
                     "prompt_tokens_details":{"cached_tokens":10}},
            "baton":{"prefill_worker":"prefill-0","decode_worker":"decode-0",
                     "sources":{"computed":30,"local_cache":4,"kv_store":6},
                     "resumes":1,"handoff_ms":3.5,"handoff_bytes":4096}})"}) {
    ASSERT_TRUE(TakeChunk(chunk, events, &answer).ok()) << chunk;
  }
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(answer.ttft_ms, 12.5);
  EXPECT_EQ(answer.queue_ms, 2);
  EXPECT_EQ(answer.handoff_ms, 3.5);
  EXPECT_EQ(answer.handoff_bytes, 4096u);
  EXPECT_EQ(answer.local_cache_tokens, 4u);
  EXPECT_EQ(answer.kv_store_tokens, 6u);
  EXPECT_EQ(StatusLine(answer),
            "prompt 40 tokens 3000.0 t/s (cached 10) | generation 5 tokens "
            "100.0 t/s | first token 12 ms | prefill-0 -> decode-0 | resumed "
            "1");
}

TEST(HttpChunkTest, SurvivesMembersOfOtherTypes) {
  Answer answer;
  for (const char* chunk :
       {R"({"baton":7,"usage":[],"timings":"x","choices":{}})",
        R"({"baton":{"prefill_worker":1,"sources":[],"resumes":"x"}})"}) {
    EXPECT_TRUE(TakeChunk(chunk, {}, &answer).ok()) << chunk;
  }
  EXPECT_EQ(answer.prefill_worker, "");
  EXPECT_TRUE(absl::IsDataLoss(TakeChunk("[1]", {}, &answer)));
}

Answer AnswerOf(std::vector<int32_t> tokens) {
  Answer answer;
  answer.token_ids = std::move(tokens);
  answer.prefill_worker = "prefill-0";
  answer.decode_worker = "decode-0";
  answer.handoff_bytes = 4096;
  return answer;
}

TEST(AnswerTest, RatesLeaveOutTheFirstToken) {
  Answer answer;
  answer.prompt_n = 50;
  answer.prompt_ms = 100;
  answer.predicted_n = 11;
  answer.predicted_ms = 1000;
  EXPECT_EQ(answer.PromptRate(), 500);
  EXPECT_EQ(answer.GenerationRate(), 10);
  EXPECT_EQ(Answer().PromptRate(), 0);
  EXPECT_EQ(Answer().GenerationRate(), 0);
}

TEST(DemoReportTest, SaysWhetherTheTokensAreTheSame) {
  const Answer a = AnswerOf({1, 2, 3}), b = AnswerOf({1, 2, 4});
  EXPECT_TRUE(SameTokens(a, a));
  EXPECT_FALSE(SameTokens(a, b));
  EXPECT_FALSE(SameTokens(AnswerOf({}), AnswerOf({})));
  EXPECT_EQ(FirstDifference(a, b), 2u);
  EXPECT_EQ(FirstDifference(a, AnswerOf({1})), 1u);

  const std::string report = DemoReport({a, a}, {a, b});
  EXPECT_THAT(report,
              testing::ContainsRegex("identical to one process +yes +NO"));
  EXPECT_THAT(report, HasSubstr("prefill-0 -> decode-0"));
  EXPECT_THAT(report, testing::ContainsRegex("handed over \\(bytes\\) +4096"));
  EXPECT_FALSE(nlohmann::json::parse(DemoJson({a, a}, {a, b}))["identical"]);
  EXPECT_TRUE(nlohmann::json::parse(DemoJson({a}, {a}))["identical"]);
  EXPECT_FALSE(nlohmann::json::parse(DemoJson({a, a}, {a}))["identical"]);
}

}  // namespace
}  // namespace baton::cli
