#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gateway/http/request_codec.h"
#include "services/base/error_details.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

absl::StatusOr<ChatRequest> Chat(absl::string_view fields) {
  auto body = ParseJsonObject(
      absl::StrCat(R"({"messages":[{"role":"user","content":"hi"}])",
                   fields.empty() ? "" : ",", fields, "}"));
  if (!body.ok()) return body.status();
  return ParseChatRequest(*body);
}

absl::StatusOr<CompletionRequest> Completion(absl::string_view text) {
  auto body = ParseJsonObject(text);
  if (!body.ok()) return body.status();
  return ParseCompletionRequest(*body);
}

absl::StatusOr<std::vector<text::ChatTurn>> Messages(absl::string_view array) {
  auto body = ParseJsonObject(absl::StrCat("{\"messages\":", array, "}"));
  if (!body.ok()) return body.status();
  return ParseMessages(*body);
}

TEST(JsonReader, ReadsDepth64AndRefusesDepth65) {
  const std::string at_limit =
      absl::StrCat("{\"a\":", std::string(63, '['), std::string(63, ']'), "}");
  EXPECT_TRUE(ParseJsonObject(at_limit).ok());
  const std::string beyond =
      absl::StrCat("{\"a\":", std::string(64, '['), std::string(64, ']'), "}");
  EXPECT_THAT(std::string(ParseJsonObject(beyond).status().message()),
              HasSubstr("nested deeper"));
}

TEST(JsonReader, DoesNotCountBracketsInsideStrings) {
  const std::string text =
      absl::StrCat(R"({"a":"\")", std::string(500, '['), "\"}");
  EXPECT_TRUE(ParseJsonObject(text).ok());
}

TEST(JsonReader, RefusesMoreValuesThanTheLimit) {
  std::string text = "{\"a\":[0";
  for (size_t i = 0; i <= kMaxJsonValues; ++i) text += ",0";
  text += "]}";
  EXPECT_THAT(std::string(ParseJsonObject(text).status().message()),
              HasSubstr("more than"));
}

TEST(JsonReader, RefusesWhatIsNotJsonInUtf8) {
  for (const char* text :
       {"", "{", "[]", "3", "{\"a\":NaN}", "{\"a\":1e999}", "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc3\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":1}x",
        "{\"a\":'b'}"}) {
    const auto parsed = ParseJsonObject(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ErrorReason(parsed.status()), "invalid_value") << text;
  }
}

TEST(JsonReader, DumpsInvalidUtf8AsReplacementCharacters) {
  EXPECT_EQ(DumpJson(Json{{"a", "x\xff"}}), "{\"a\":\"x\xef\xbf\xbd\"}");
}

TEST(RequestCodec, ReadsEveryChatField) {
  auto request = Chat(
      R"("model":"m","max_tokens":7,"max_completion_tokens":9,"min_tokens":2,
      "temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":40,
      "repeat_penalty":1.5,"presence_penalty":-1,"frequency_penalty":2,
      "seed":18446744073709551615,"stop":["a","b"],"stop_token_ids":[3],
      "ignore_eos":true,"cache_salt":"s","logit_bias":{"5":-100,"6":1.5},
      "logprobs":true,"top_logprobs":4,"stream":true,
      "stream_options":{"include_usage":true},"timings_per_token":true,
      "return_progress":true,"n":1,"chat_template_kwargs":{"t":true},
      "speculation":{"mode":"mtp","max":3})");
  ASSERT_TRUE(request.ok()) << request.status();
  const GenerationParameters& parameters = request->input.parameters;
  EXPECT_EQ(parameters.model, "m");
  EXPECT_EQ(parameters.cache_salt, "s");
  EXPECT_EQ(parameters.speculation.mode, "mtp");
  EXPECT_EQ(parameters.speculation.max, 3u);
  EXPECT_EQ(parameters.limits.max_tokens, 9u);
  EXPECT_EQ(parameters.limits.min_tokens, 2u);
  EXPECT_THAT(parameters.limits.stop, ElementsAre("a", "b"));
  EXPECT_THAT(parameters.limits.stop_token_ids, ElementsAre(3));
  EXPECT_TRUE(parameters.limits.ignore_eos);
  const Sampling& sampling = parameters.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.25f);
  EXPECT_EQ(sampling.min_p, 0.125f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(sampling.presence_penalty, -1.0f);
  EXPECT_EQ(sampling.frequency_penalty, 2.0f);
  EXPECT_EQ(sampling.seed, 18446744073709551615u);
  EXPECT_THAT(sampling.logit_bias,
              ElementsAre(Pair(5, -100.0f), Pair(6, 1.5f)));
  EXPECT_TRUE(sampling.logprobs);
  EXPECT_EQ(sampling.top_logprobs, 4u);
  EXPECT_EQ(request->input.template_kwargs_json, "{\"t\":true}");
  EXPECT_TRUE(request->answer.stream);
  EXPECT_TRUE(request->answer.include_usage);
  EXPECT_TRUE(request->answer.timings_per_token);
  EXPECT_TRUE(request->answer.return_progress);
  EXPECT_TRUE(request->answer.logprobs);
}

TEST(RequestCodec, RemembersWhichNameTheClientUsed) {
  const auto names = [](absl::string_view fields) {
    auto request = Chat(fields);
    EXPECT_TRUE(request.ok()) << request.status();
    return request->input.parameters.names;
  };
  EXPECT_STREQ(names(R"("max_tokens":0)").max_tokens, "max_tokens");
  EXPECT_STREQ(names(R"("max_completion_tokens":0)").max_tokens,
               "max_completion_tokens");
  EXPECT_STREQ(names(R"("max_tokens":1,"max_completion_tokens":0)").max_tokens,
               "max_completion_tokens");
  EXPECT_STREQ(
      names(R"("max_tokens":0,"max_completion_tokens":null)").max_tokens,
      "max_tokens");
  EXPECT_STREQ(names(R"("repetition_penalty":0)").repetition_penalty,
               "repetition_penalty");
  EXPECT_STREQ(names(R"("repeat_penalty":0)").repetition_penalty,
               "repeat_penalty");
  EXPECT_STREQ(names(R"("logprobs":true,"top_logprobs":21)").top_logprobs,
               "top_logprobs");
  auto completion = Completion(R"({"prompt":"a","logprobs":21})");
  ASSERT_TRUE(completion.ok());
  EXPECT_STREQ(completion->input.parameters.names.top_logprobs, "logprobs");
}

TEST(RequestCodec, LeavesAbsentAndNullFieldsUnset) {
  for (const char* fields : {"", R"("temperature":null,"seed":null,
      "max_tokens":null,"stop":null,"tools":null,"response_format":null,
      "logit_bias":null,"stream":null,"n":null,"top_k":null)"}) {
    auto request = Chat(fields);
    ASSERT_TRUE(request.ok()) << request.status();
    const GenerationParameters& parameters = request->input.parameters;
    EXPECT_FALSE(parameters.sampling.temperature.has_value());
    EXPECT_FALSE(parameters.sampling.seed.has_value());
    EXPECT_FALSE(parameters.sampling.top_k.has_value());
    EXPECT_FALSE(parameters.limits.max_tokens.has_value());
    EXPECT_TRUE(parameters.limits.stop.empty());
    EXPECT_FALSE(request->answer.stream);
  }
}

TEST(RequestCodec, IgnoresFieldsItDoesNotKnow) {
  EXPECT_TRUE(Chat(R"("user":"u","metadata":{"a":[1]},"store":true,
      "service_tier":"auto","made_up":{"x":1},"tools":[],"tool_choice":"auto",
      "response_format":{"type":"text"},"grammar":"")")
                  .ok());
}

TEST(RequestCodec, TakesNegativeSeedsAsTheirBits) {
  auto request = Chat(R"("seed":-1)");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->input.parameters.sampling.seed, ~uint64_t{0});
}

TEST(RequestCodec, TakesWholeNumbersWrittenAsFloats) {
  auto request = Chat(R"("max_tokens":16.0,"top_k":-1)");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->input.parameters.limits.max_tokens, 16u);
  EXPECT_EQ(request->input.parameters.sampling.top_k, 0);
}

struct Refusal {
  const char* fields;
  const char* param;
};

class RefusedField : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedField, IsAnInvalidValueThatNamesTheField) {
  auto request = Chat(GetParam().fields);
  ASSERT_FALSE(request.ok()) << GetParam().fields;
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(request.status()), "invalid_value");
  EXPECT_EQ(ErrorField(request.status()), GetParam().param);
}

INSTANTIATE_TEST_SUITE_P(
    WrongTypes, RefusedField,
    ::testing::Values(
        Refusal{R"("model":3)", "model"},
        Refusal{R"("temperature":"1")", "temperature"},
        Refusal{R"("temperature":1e300)", "temperature"},
        Refusal{R"("top_p":[])", "top_p"}, Refusal{R"("top_k":1.5)", "top_k"},
        Refusal{R"("top_k":4294967296)", "top_k"},
        Refusal{R"("max_tokens":-1)", "max_tokens"},
        Refusal{R"("max_tokens":1e20)", "max_tokens"},
        Refusal{R"("max_tokens":18446744073709551615)", "max_tokens"},
        Refusal{R"("max_completion_tokens":true)", "max_completion_tokens"},
        Refusal{R"("seed":1.5)", "seed"},
        Refusal{R"("seed":99999999999999999999)", "seed"},
        Refusal{R"("stop":3)", "stop"}, Refusal{R"("stop":["a",3])", "stop"},
        Refusal{R"("stop_token_ids":[-1])", "stop_token_ids"},
        Refusal{R"("stream":"yes")", "stream"},
        Refusal{R"("stream_options":true)", "stream_options"},
        Refusal{R"("stream_options":{"include_usage":1})",
                "stream_options.include_usage"},
        Refusal{R"("logit_bias":[])", "logit_bias"},
        Refusal{R"("logit_bias":{"x":1})", "logit_bias"},
        Refusal{R"("logit_bias":{"-2":1})", "logit_bias"},
        Refusal{R"("logit_bias":{"1":"a"})", "logit_bias"},
        Refusal{R"("logprobs":3)", "logprobs"},
        Refusal{R"("top_logprobs":3)", "top_logprobs"},
        Refusal{R"("ignore_eos":0)", "ignore_eos"},
        Refusal{R"("cache_salt":1)", "cache_salt"},
        Refusal{R"("speculation":"mtp")", "speculation"},
        Refusal{R"("speculation":{"mode":1})", "speculation.mode"},
        Refusal{R"("speculation":{"max":-1})", "speculation.max"},
        Refusal{R"("chat_template_kwargs":"a")", "chat_template_kwargs"}));

INSTANTIATE_TEST_SUITE_P(
    UnservedFeatures, RefusedField,
    ::testing::Values(
        Refusal{R"("n":2)", "n"}, Refusal{R"("n":0)", "n"},
        Refusal{R"("n":"1")", "n"}, Refusal{R"("best_of":3)", "best_of"},
        Refusal{R"("tools":[{"type":"function"}])", "tools"},
        Refusal{R"("functions":[{}])", "functions"},
        Refusal{R"("tool_choice":"required")", "tool_choice"},
        Refusal{R"("response_format":{"type":"json_object"})",
                "response_format"},
        Refusal{R"("response_format":{})", "response_format"},
        Refusal{R"("response_format":"text")", "response_format"},
        Refusal{R"("grammar":"root ::= x")", "grammar"},
        Refusal{R"("structured_outputs":{"regex":"a"})", "structured_outputs"},
        Refusal{R"("chat_template":"{{ x }}")", "chat_template"}));

TEST(RequestCodec, ReadsMessagesOfAllRoles) {
  auto turns = Messages(R"([{"role":"developer","content":"d"},
      {"role":"user","content":[{"type":"text","text":"a"},
                                {"type":"text","text":"b"}],"name":"n"},
      {"role":"assistant","content":null,"reasoning":"r"},
      {"role":"tool","content":"t","tool_call_id":"1"}])");
  ASSERT_TRUE(turns.ok()) << turns.status();
  ASSERT_EQ(turns->size(), 4u);
  EXPECT_EQ((*turns)[0].role, "system");
  EXPECT_EQ((*turns)[1].content, "ab");
  EXPECT_EQ((*turns)[1].name, "n");
  EXPECT_EQ((*turns)[2].content, "");
  EXPECT_EQ((*turns)[2].reasoning_content, "r");
  EXPECT_EQ((*turns)[3].role, "tool");
}

TEST(RequestCodec, NamesTheMessageAtFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"{}", "messages"},
      {"[3]", "messages[0]"},
      {R"([{"content":"a"}])", "messages[0].role"},
      {R"([{"role":"robot","content":"a"}])", "messages[0].role"},
      {R"([{"role":4,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":3}])", "messages[0].content"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text","text":1}]}])",
       "messages[0].content[0].text"},
      {R"([{"role":"user","content":"a"},
           {"role":"assistant","content":"","tool_calls":[{}]}])",
       "messages[1].tool_calls"},
      {R"([{"role":"user","content":"a","name":1}])", "messages[0].name"},
  };
  for (const auto& [array, param] : cases) {
    const auto turns = Messages(array);
    ASSERT_FALSE(turns.ok()) << array;
    EXPECT_EQ(ErrorField(turns.status()), param) << array;
  }
}

TEST(RequestCodec, ReadsPromptsAsTextOrTokens) {
  for (const char* body : {R"({"prompt":"ab"})", R"({"prompt":["ab"]})"}) {
    auto request = Completion(body);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(std::get<std::string>(request->input.prompt), "ab");
  }
  for (const char* body : {R"({"prompt":[1,2]})", R"({"prompt":[[1,2]]})"}) {
    auto request = Completion(body);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_THAT(std::get<std::vector<TokenId>>(request->input.prompt),
                ElementsAre(1, 2));
  }
}

TEST(RequestCodec, RefusesOddPrompts) {
  for (const char* body :
       {"{}", R"({"prompt":null})", R"({"prompt":["a","b"]})",
        R"({"prompt":[[1],[2]]})", R"({"prompt":[1,"a"]})",
        R"({"prompt":[-1]})", R"({"prompt":[2147483648]})",
        R"({"prompt":[1.5]})", R"({"prompt":{"a":1}})"}) {
    const auto request = Completion(body);
    ASSERT_FALSE(request.ok()) << body;
    EXPECT_EQ(ErrorField(request.status()), "prompt") << body;
  }
}

TEST(RequestCodec, ReadsCompletionLogprobsAsACount) {
  auto request = Completion(R"({"prompt":"a","logprobs":0})");
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->input.parameters.sampling.logprobs);
  EXPECT_EQ(request->input.parameters.sampling.top_logprobs, 0u);
  EXPECT_FALSE(Completion(R"({"prompt":"a","logprobs":true})").ok());
  EXPECT_FALSE(Completion(R"({"prompt":"a","echo":true})").ok());
  EXPECT_FALSE(Completion(R"({"prompt":"a","suffix":"b"})").ok());
}

}  // namespace
}  // namespace baton::gateway
