#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "gateway/prompt/request_builder.h"
#include "services/base/error_details.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/manual_clock.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using testing_support::FakeTokenizer;
using testing_support::kFakeBos;

// Writes "role:content;" for each turn; BOS itself if asked to.
class FakeTemplate final : public text::ChatTemplate {
 public:
  explicit FakeTemplate(bool writes_bos) : writes_bos_(writes_bos) {}
  absl::StatusOr<std::vector<text::TextSpan>> Render(
      const std::vector<text::ChatTurn>& turns,
      absl::string_view kwargs) const override {
    if (kwargs == "bad") {
      return WithField(absl::ResourceExhaustedError("too deep"),
                       text::kTemplateKwargsField);
    }
    if (kwargs == "raise") {
      return WithField(absl::InvalidArgumentError("raised"),
                       text::kTemplateMessagesField);
    }
    std::vector<text::TextSpan> spans;
    if (writes_bos_) spans.push_back({"<bos>", true});
    for (const auto& turn : turns) {
      spans.push_back({turn.role + ":", true});
      spans.push_back({turn.content, false});
    }
    return spans;
  }

 private:
  const bool writes_bos_;
};

class OneModel final : public ModelSource {
 public:
  std::shared_ptr<const ServedModel> Current() const override { return model; }
  absl::Status Problem() const override { return problem; }
  std::shared_ptr<ServedModel> model;
  absl::Status problem;
};

class RequestBuilderTest : public ::testing::Test {
 protected:
  RequestBuilderTest() {
    source_.model = std::make_shared<ServedModel>();
    source_.model->name = "m";
    source_.model->aliases = {"alias"};
    source_.model->context_length = 20;
    source_.model->tokenizer = std::make_shared<FakeTokenizer>();
    source_.model->chat_template = std::make_shared<FakeTemplate>(false);
  }
  absl::StatusOr<GenerationSpec> Complete(
      const std::function<void(GenerationParameters*)>& change = {},
      std::variant<std::string, std::vector<TokenId>> prompt = "hi") {
    CompletionInput input;
    input.prompt = std::move(prompt);
    if (change) change(&input.parameters);
    return builder_.BuildCompletion(input);
  }
  ManualClock clock_;
  OneModel source_;
  RequestBuilder builder_{{}, &source_, &clock_};
};

TEST_F(RequestBuilderTest, FillsInDefaults) {
  const auto spec = Complete();
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->prompt, ElementsAre(kFakeBos, 'h', 'i'));
  EXPECT_EQ(spec->sampling.temperature, 1.0f);
  EXPECT_EQ(spec->sampling.top_p, 1.0f);
  EXPECT_EQ(spec->sampling.top_k, 0);
  EXPECT_EQ(spec->sampling.min_p, 0.0f);
  EXPECT_TRUE(spec->sampling.seed.has_value());
  EXPECT_EQ(spec->limits.max_tokens, 17u) << "the rest of the context";
  EXPECT_EQ(spec->api, "completions");
  EXPECT_EQ(spec->request_id.value().rfind("cmpl-", 0), 0u);
  EXPECT_EQ(spec->arrival, clock_.Monotonic());
  EXPECT_EQ(spec->deadline, clock_.Monotonic() + absl::Seconds(600));
}

TEST_F(RequestBuilderTest, KeepsWhatTheClientSets) {
  const auto spec = Complete([](GenerationParameters* p) {
    p->sampling.temperature = 0;
    p->sampling.seed = 42;
    p->limits.max_tokens = 5;
    p->request_id = "mine";
    p->timeout = absl::Seconds(3);
    p->model = "alias";
  });
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->sampling.temperature, 0.0f);
  EXPECT_EQ(spec->sampling.seed, 42u);
  EXPECT_EQ(spec->limits.max_tokens, 5u);
  EXPECT_EQ(spec->request_id.value(), "mine");
  EXPECT_EQ(spec->deadline, clock_.Monotonic() + absl::Seconds(3));
}

TEST_F(RequestBuilderTest, MintsADifferentSeedEachTime) {
  EXPECT_NE(*Complete()->sampling.seed, *Complete()->sampling.seed);
}

TEST_F(RequestBuilderTest, EachRangeIsCheckedAndNamed) {
  const float nan = std::nanf("");
  const std::vector<
      std::pair<const char*, std::function<void(GenerationParameters*)>>>
      cases = {
          {"temperature", [](auto* p) { p->sampling.temperature = -1; }},
          {"temperature", [&](auto* p) { p->sampling.temperature = nan; }},
          {"top_p", [](auto* p) { p->sampling.top_p = 0; }},
          {"top_p", [](auto* p) { p->sampling.top_p = 1.5; }},
          {"min_p", [](auto* p) { p->sampling.min_p = 2; }},
          {"top_k", [](auto* p) { p->sampling.top_k = -1; }},
          {"repetition_penalty",
           [](auto* p) { p->sampling.repetition_penalty = 0; }},
          {"presence_penalty",
           [](auto* p) { p->sampling.presence_penalty = 3; }},
          {"frequency_penalty",
           [](auto* p) { p->sampling.frequency_penalty = -3; }},
          {"logit_bias",
           [](auto* p) {
             p->sampling.logit_bias = {{999, 1}};
           }},
          {"logit_bias",
           [](auto* p) {
             p->sampling.logit_bias = {{1, 101}};
           }},
          {"top_logprobs",
           [](auto* p) {
             p->sampling.logprobs = true;
             p->sampling.top_logprobs = 21;
           }},
          {"top_logprobs", [](auto* p) { p->sampling.top_logprobs = 1; }},
          {"max_tokens", [](auto* p) { p->limits.max_tokens = 0; }},
          {"min_tokens", [](auto* p) { p->limits.min_tokens = 18; }},
          {"stop", [](auto* p) { p->limits.stop = {""}; }},
          {"stop", [](auto* p) { p->limits.stop.resize(17, "x"); }},
          {"stop", [](auto* p) { p->limits.stop = {std::string(257, 'x')}; }},
          {"stop_token_ids", [](auto* p) { p->limits.stop_token_ids = {-1}; }},
          {"speculation.mode", [](auto* p) { p->speculation.mode = "eagle"; }},
          {"speculation.max", [](auto* p) { p->speculation.max = 65; }},
          {"cache_salt", [](auto* p) { p->cache_salt.resize(257); }},
          {"x-request-id", [](auto* p) { p->request_id = "a b"; }},
      };
  for (const auto& [field, change] : cases) {
    const auto spec = Complete(change);
    ASSERT_FALSE(spec.ok()) << field;
    EXPECT_TRUE(absl::IsInvalidArgument(spec.status())) << spec.status();
    EXPECT_EQ(ErrorField(spec.status()), field);
    EXPECT_EQ(ErrorReason(spec.status()), "invalid_value");
  }
}

TEST_F(RequestBuilderTest, FieldsAreNamedAsTheClientNamesThem) {
  const std::vector<
      std::pair<const char*, std::function<void(GenerationParameters*)>>>
      cases = {
          {"limit", [](auto* p) { p->limits.max_tokens = 0; }},
          {"limit", [](auto* p) { p->limits.max_tokens = 500; }},
          {"penalty", [](auto* p) { p->sampling.repetition_penalty = 0; }},
          {"logs", [](auto* p) { p->sampling.top_logprobs = 1; }},
      };
  for (const auto& [field, change] : cases) {
    const auto spec = Complete([&](GenerationParameters* p) {
      p->names.max_tokens = "limit";
      p->names.repetition_penalty = "penalty";
      p->names.top_logprobs = "logs";
      change(p);
    });
    EXPECT_EQ(ErrorField(spec.status()), field);
    EXPECT_NE(spec.status().message().find(field), absl::string_view::npos);
  }
}

TEST_F(RequestBuilderTest, PromptThatFillsTheContextIsRefused) {
  EXPECT_TRUE(Complete({}, std::vector<TokenId>(19, 'a')).ok());
  const auto spec = Complete({}, std::vector<TokenId>(20, 'a'));
  EXPECT_TRUE(absl::IsInvalidArgument(spec.status()));
  EXPECT_EQ(ErrorReason(spec.status()), "context_length_exceeded");
}

TEST_F(RequestBuilderTest, AskingForMoreThanTheContextIsRefused) {
  auto ask = [](uint32_t tokens) {
    return [tokens](GenerationParameters* p) { p->limits.max_tokens = tokens; };
  };
  EXPECT_TRUE(Complete(ask(17)).ok());
  EXPECT_EQ(ErrorReason(Complete(ask(18)).status()), "context_length_exceeded");
  EXPECT_EQ(ErrorField(Complete(ask(4294967295u)).status()), "max_tokens");
}

TEST_F(RequestBuilderTest, TokenIdsOutsideTheVocabularyAreRefused) {
  for (TokenId bad : {-1, 258}) {
    const auto spec = Complete({}, std::vector<TokenId>{1, bad});
    EXPECT_EQ(ErrorField(spec.status()), "prompt");
  }
  EXPECT_EQ(ErrorField(Complete({}, std::vector<TokenId>{}).status()),
            "prompt");
}

TEST_F(RequestBuilderTest, UnknownModelIsNotFound) {
  const auto spec =
      Complete([](GenerationParameters* p) { p->model = "other"; });
  EXPECT_TRUE(absl::IsNotFound(spec.status()));
  EXPECT_EQ(ErrorReason(spec.status()), "model_not_found");
}

TEST_F(RequestBuilderTest, NoModelYetIsUnavailableWithAHint) {
  source_.model = nullptr;
  const auto spec = Complete();
  EXPECT_TRUE(absl::IsUnavailable(spec.status()));
  EXPECT_EQ(ErrorReason(spec.status()), "model_loading");
  EXPECT_TRUE(RetryAfter(spec.status()).has_value());
}

TEST_F(RequestBuilderTest, RefusedModelIsUnusableAndSaysWhy) {
  source_.model = nullptr;
  source_.problem = absl::UnimplementedError("pre-tokenizer \"x\"");
  const auto spec = Complete();
  EXPECT_TRUE(absl::IsUnavailable(spec.status()));
  EXPECT_EQ(ErrorReason(spec.status()), "model_unusable");
  EXPECT_NE(spec.status().message().find("pre-tokenizer \"x\""),
            absl::string_view::npos);
  EXPECT_TRUE(RetryAfter(spec.status()).has_value());
}

TEST_F(RequestBuilderTest, PassedDeadlineIsRefused) {
  const auto spec = Complete(
      [](GenerationParameters* p) { p->timeout = absl::ZeroDuration(); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(spec.status()));
}

TEST_F(RequestBuilderTest, ChatGetsOneBosWhoeverWritesIt) {
  ChatInput input;
  input.turns = {{"u", "x", "", ""}};
  auto spec = builder_.BuildChat(input);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->prompt, ElementsAre(kFakeBos, 'u', ':', 'x'));
  EXPECT_EQ(spec->api, "chat");
  EXPECT_EQ(spec->request_id.value().rfind("chatcmpl-", 0), 0u);
  source_.model->chat_template = std::make_shared<FakeTemplate>(true);
  spec = builder_.BuildChat(input);
  EXPECT_THAT(spec->prompt, ElementsAre('<', 'b', 'o', 's', '>', 'u', ':', 'x'))
      << "the template's own text, and no further BOS";
}

TEST_F(RequestBuilderTest, TemplateVariablesAtFaultAreNamedByTheFront) {
  ChatInput input;
  input.turns = {{"u", "x", "", ""}};
  input.template_kwargs_json = "bad";
  auto spec = builder_.BuildChat(input);
  EXPECT_TRUE(absl::IsInvalidArgument(spec.status()));
  EXPECT_EQ(ErrorField(spec.status()), "chat_template_kwargs");
  input.parameters.names.template_kwargs = "of_grpc";
  EXPECT_EQ(ErrorField(builder_.BuildChat(input).status()), "of_grpc");
}

TEST_F(RequestBuilderTest, TooLongChatIsTheMessagesFault) {
  ChatInput input;
  input.turns = {{"u", std::string(20, 'x'), "", ""}};
  const auto spec = builder_.BuildChat(input);
  EXPECT_EQ(ErrorReason(spec.status()), "context_length_exceeded");
  EXPECT_EQ(ErrorField(spec.status()), "messages");
}

TEST_F(RequestBuilderTest, ChatFaultsAreTheMessagesFault) {
  ChatInput input;
  EXPECT_EQ(ErrorField(builder_.BuildChat(input).status()), "messages");
  input.turns = {{"u", "x", "", ""}};
  input.template_kwargs_json = "raise";
  auto spec = builder_.BuildChat(input);
  EXPECT_TRUE(absl::IsInvalidArgument(spec.status()));
  EXPECT_EQ(ErrorField(spec.status()), "messages");
  source_.model->chat_template = nullptr;
  EXPECT_EQ(ErrorField(builder_.BuildChat(input).status()), "messages");
}

}  // namespace
}  // namespace baton::gateway
