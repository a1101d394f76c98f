#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/gguf/gguf_header.h"
#include "services/text/chat_template.h"

namespace baton::text {
namespace {

using ::testing::HasSubstr;

const std::vector<ChatTurn> kTurns = {{"user", "Hi", "", ""}};

absl::StatusOr<std::vector<TextSpan>> Render(
    absl::string_view source, const std::vector<ChatTurn>& turns = kTurns,
    absl::string_view kwargs = "", const ChatTemplate::Options& options = {}) {
  auto chat_template = ChatTemplate::Create(source, "<s>", "</s>", options);
  if (!chat_template.ok()) return chat_template.status();
  return (*chat_template)->Render(turns, kwargs);
}

std::string Text(const absl::StatusOr<std::vector<TextSpan>>& spans) {
  if (!spans.ok()) return spans.status().ToString();
  std::string text;
  for (const TextSpan& span : *spans) text += span.text;
  return text;
}

// Untrusted spans in brackets.
std::string Marked(const absl::StatusOr<std::vector<TextSpan>>& spans) {
  if (!spans.ok()) return spans.status().ToString();
  std::string text;
  for (const TextSpan& span : *spans) {
    absl::StrAppend(
        &text, span.trusted ? span.text : absl::StrCat("[", span.text, "]"));
  }
  return text;
}

std::string PublishedTemplate(const std::string& name) {
  std::ifstream in(BATON_LLAMA_DIR "/models/templates/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(ChatTemplateTest, RendersTheFallback) {
  EXPECT_EQ(Text(Render(kChatMlTemplate, {{"system", "Be kind.", "", ""},
                                          {"user", "Hi", "", ""}})),
            "<|im_start|>system\nBe kind.<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplateTest, RendersTheDemoModelsOwnTemplate) {
  auto header = gguf::GgufHeader::FromFile(BATON_DEMO_MODEL);
  ASSERT_TRUE(header.ok()) << header.status();
  const auto source = (*header)->String("tokenizer.chat_template");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text(Render(*source)),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, "
            "trained by Hugging Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>"
            "\n<|im_start|>assistant\n");
}

TEST(ChatTemplateTest, RendersQwen3WithAndWithoutThinking) {
  const std::string source = PublishedTemplate("Qwen-Qwen3-0.6B.jinja");
  const std::vector<ChatTurn> turns = {
      {"user", "One?", "", ""},
      {"assistant", "<think>\nhm\n</think>\n\nTwo.", "", ""},
      {"user", "Three?", "", ""}};
  // Thoughts of earlier turns are cut out of the client's text.
  const std::string start =
      "<|im_start|>user\n[One?]<|im_end|>\n<|im_start|>assistant\n[Two.]"
      "<|im_end|>\n<|im_start|>user\n[Three?]<|im_end|>\n"
      "<|im_start|>assistant\n";
  EXPECT_EQ(Marked(Render(source, turns)), start);
  EXPECT_EQ(Marked(Render(source, turns, R"({"enable_thinking": true})")),
            start);
  EXPECT_EQ(Marked(Render(source, turns, R"({"enable_thinking": false})")),
            start + "<think>\n\n</think>\n\n");
}

TEST(ChatTemplateTest, RendersQwen25WithItsDefaultSystemTurn) {
  EXPECT_EQ(Marked(Render(PublishedTemplate("Qwen-Qwen2.5-7B-Instruct.jinja"))),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You "
            "are a helpful assistant.<|im_end|>\n<|im_start|>user\n[Hi]"
            "<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplateTest, ClientTextStaysUntrustedThroughEveryFilter) {
  const std::vector<ChatTurn> turns = {{"user", "a<|x|>b", "", ""}};
  for (const char* expression :
       {"m.content", "m.content|trim", "m.content|upper",
        "m.content.split('<')[1]", "m.content.rsplit('<')[0]",
        "m.content|replace('a', 'c')", "m.content[1:4]", "m.content[2]",
        "[m.content, m.content]|join('')", "m.content|indent(2)",
        "m.content|tojson", "[m.content]|string", "m.content|default('z')",
        "messages|map(attribute='content')|join('')", "m.content * 2",
        "m['content'].strip('b')", "m.content|string", "m.name"}) {
    const auto spans =
        Render(absl::StrCat("{% set m = messages[0] %}{{ ", expression, " }}"),
               {{"user", "a<|x|>b", "n<|x|>", ""}});
    ASSERT_TRUE(spans.ok()) << expression << ": " << spans.status();
    for (const TextSpan& span : *spans) {
      if (!span.trusted) continue;
      // Only what `replace` puts in is the template's.
      EXPECT_EQ(span.text, "c") << expression;
    }
  }
  EXPECT_EQ(Marked(Render("{{ ('<|' + messages[0].content + '|>')|"
                          "replace('x', '|>') }}",
                          turns)),
            "<|[a<|]|>[|>b]|>");
}

TEST(ChatTemplateTest, OnlyKnownRolesAreTheTemplatesWords) {
  const char* source = "{{ '<|' + messages[0].role + '|>' }}";
  EXPECT_EQ(Marked(Render(source)), "<|user|>");
  EXPECT_EQ(Marked(Render(source, {{"im_start", "", "", ""}})),
            "<|[im_start]|>");
}

TEST(ChatTemplateTest, ClientVariablesAreUntrustedAndChecked) {
  EXPECT_EQ(Marked(Render("{{ a.b[0] }}{{ c }}{% for k in a %}{{ k }}"
                          "{% endfor %}",
                          kTurns, R"({"a": {"b": ["<|x|>"]}, "c": 3})")),
            "[<|x|>]3[b]");
  for (const char* kwargs :
       {"[]", "{", "1", R"({"messages": []})", R"({"bos_token": "x"})"}) {
    const absl::Status status = Render("x", kTurns, kwargs).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << kwargs;
    EXPECT_EQ(ErrorField(status), kTemplateKwargsField) << kwargs;
  }
  std::string many = R"({"a": [0)";
  for (int i = 0; i < 600'000; ++i) many += ",0";
  const absl::Status limit = Render("x", kTurns, many + "]}").status();
  EXPECT_EQ(limit.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorField(limit), kTemplateKwargsField);
  const absl::Status raised =
      Render("{{ raise_exception('no') }}", kTurns, R"({"a": 1})").status();
  EXPECT_EQ(ErrorField(raised), kTemplateMessagesField);
  EXPECT_EQ(Render("x", kTurns,
                   absl::StrCat(R"({"a": )", std::string(100'000, '['),
                                std::string(100'000, ']'), "}"))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, NamesTheLineOfAFault) {
  const absl::Status status =
      ChatTemplate::Create("a\nb\n{% if %}", "", "", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("line 3"));
  EXPECT_THAT(
      ChatTemplate::Create("a\r\n\r\n{{ ^ }}", "", "", {}).status().ToString(),
      HasSubstr("line 3"));
  EXPECT_THAT(
      ChatTemplate::Create("\n{% bogus %}", "", "", {}).status().ToString(),
      HasSubstr("bogus"));
}

TEST(ChatTemplateTest, PassesOnWhatTheTemplateRaises) {
  const absl::Status status =
      Render("{{ raise_exception('no system turns here') }}").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "chat template: no system turns here");
}

// Each must end quickly, in an error, without a crash.
TEST(ChatTemplateTest, StopsHostileTemplates) {
  const std::string kCases[] = {
      absl::StrCat("{{ ", std::string(30'000, '('), "1",
                   std::string(30'000, ')'), " }}"),
      absl::StrCat("{{ ", std::string(30'000, '['), " }}"),
      "{% for i in range(1000000000) %}x{% endfor %}",
      "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}"
      "{% endfor %}",
      "{{ 'x' * 1000000000000 }}",
      "{{ '' * 1000000000000 }}",
      "{% set n = namespace(s='x') %}{% for i in range(64) %}"
      "{% set n.s = n.s + n.s %}{% endfor %}",
      "{% set n = namespace(s=[1]) %}{% for i in range(64) %}"
      "{% set n.s = n.s + n.s %}{% endfor %}",
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% set n = namespace(x=[]) %}{% for i in range(1000) %}"
      "{% set n.x = [n.x] %}{% endfor %}{{ n.x|tojson }}",
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}"
      "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
      "{{ 'a\nb'|indent(99999999999) }}",
      "{{ [1, [2]]|tojson(indent=2000000000) }}",
      "{{ 1 is divisibleby(0) }}",
      "{{ (-9223372036854775807 - 1) is divisibleby(0) }}",
  };
  for (const std::string& source : kCases) {
    const std::clock_t start = std::clock();
    const absl::Status status = Render(source).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status) ||
                absl::IsInvalidArgument(status))
        << source.substr(0, 80) << ": " << status;
    EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 20)
        << source.substr(0, 80);
  }
}

TEST(ChatTemplateTest, StopsHostileSources) {
  for (const char* part :
       {"a + ", "not ", "- ", "a if b else ", "a|trim|", "a.b.", "a()", "{"}) {
    std::string source = "{{ ";
    for (int i = 0; i < 30'000; ++i) source += part;
    const absl::Status status =
        ChatTemplate::Create(source + "a }}", "", "", {}).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status) ||
                absl::IsInvalidArgument(status))
        << part << ": " << status;
  }
  ChatTemplate::Options options;
  options.max_source_bytes = 10;
  EXPECT_TRUE(absl::IsResourceExhausted(
      ChatTemplate::Create("12345678901", "", "", options).status()));
}

TEST(ChatTemplateTest, DeeplyNestedValuesAreReleased) {
  // Far deeper than a stack would allow.
  ChatTemplate::Options options;
  options.max_steps = 100'000'000;
  EXPECT_EQ(Text(Render("{% set n = namespace(x=[]) %}"
                        "{% for i in range(40000) %}{% set n.x = [n.x] %}"
                        "{% endfor %}ok",
                        kTurns, "", options)),
            "ok");
}

TEST(ChatTemplateTest, LimitsTheOutput) {
  ChatTemplate::Options options;
  options.max_output_bytes = 10;
  EXPECT_EQ(Text(Render("0123456789", kTurns, "", options)), "0123456789");
  EXPECT_TRUE(absl::IsResourceExhausted(
      Render("0123456789{{ messages[0].content }}", kTurns, "", options)
          .status()));
}

}  // namespace
}  // namespace baton::text
