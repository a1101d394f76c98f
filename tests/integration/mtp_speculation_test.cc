// The demo model with its trained MTP block: the text is the text without it,
// and the block really knows what comes next.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "services/base/clock.h"
#include "services/telemetry/prometheus_metrics.h"
#include "services/text/tokenizer.h"
#include "tests/support/recording_observer.h"
#include "worker/cache/block_pool.h"
#include "worker/engine/engine.h"
#include "worker/model/model.h"
#include "worker/speculation/drafter_chain.h"
#include "worker/speculation/mtp_drafter.h"
#include "worker/speculation/ngram_drafter.h"

namespace baton::worker {
namespace {

const char* const kQuestions[] = {
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "Explain how a bicycle stays upright.",
    "Write a Python function that reverses a list.",
    "Give me three tips for better sleep.",
    "What is the difference between a virus and a bacterium?",
    "Tell me about the history of bread.",
    "How do I boil an egg?",
};

struct Outcome {
  std::vector<std::vector<TokenId>> tokens;
  uint32_t drafted = 0, accepted = 0;
};

class MtpSpeculationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Model::Options options;
    options.path = BATON_DEMO_MODEL;
    options.mtp_path = BATON_DEMO_MTP;
    auto model = Model::Load(options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = model->release();
    const auto tokenizer = *text::Tokenizer::Create(model_->header());
    for (const char* question : kQuestions) {
      prompts_->push_back(
          tokenizer->Encode(std::string("<|im_start|>user\n") + question +
                                "<|im_end|>\n<|im_start|>assistant\n",
                            false, true));
    }
  }

  struct Setting {
    DraftMethods methods;
    uint32_t most_drafts = 1;
    uint32_t at_once = 1;
    float temperature = 0;
  };

  // 64 tokens for each question.
  static Outcome Write(const Setting& setting) {
    const auto registry = telemetry::PrometheusMetrics::Create("decode");
    SystemClock clock;
    BlockPool::Options pool_options;
    pool_options.block_bytes = model_->layout().TargetBytes();
    pool_options.draft_bytes = model_->layout().DraftBytes();
    pool_options.blocks = 48;
    const auto pool = *BlockPool::Create(pool_options);
    const auto forward = *model_->CreateForward(pool.get(), 2);
    std::vector<std::unique_ptr<Drafter>> drafters;
    if (setting.methods.Has(DraftMethod::kNgram)) {
      drafters.push_back(std::make_unique<NgramDrafter>());
    }
    if (setting.methods.Has(DraftMethod::kMtp)) {
      drafters.push_back(
          std::make_unique<MtpDrafter>(MtpDrafter::Options{}, forward.get()));
    }
    DrafterChain chain(std::move(drafters));
    Engine::Options options;
    options.most_drafts = setting.most_drafts;
    options.eos_tokens = model_->description().end_tokens;
    const auto engine = Engine::Create(options, forward.get(), pool.get(),
                                       &clock, registry.get(), &chain);
    Outcome outcome;
    std::vector<std::shared_ptr<RecordingObserver>> observers;
    for (size_t i = 0; i < prompts_->size(); ++i) {
      SequenceSpec spec;
      spec.tokens = (*prompts_)[i];
      spec.prompt_tokens = static_cast<uint32_t>(spec.tokens.size());
      spec.stop.max_tokens = 64;
      spec.sampling.seed = 7 + i;
      spec.sampling.temperature = setting.temperature;
      auto observer = std::make_shared<RecordingObserver>();
      EXPECT_TRUE(engine->Submit(std::move(spec), observer).ok());
      if (setting.at_once == 1) observer->AwaitFinished();
      observers.push_back(std::move(observer));
    }
    for (const auto& observer : observers) {
      const auto record = observer->AwaitFinished();
      EXPECT_TRUE(record.result->ok()) << record.result->status();
      outcome.tokens.push_back(record.tokens);
      outcome.drafted += record.timings.drafted_tokens;
      outcome.accepted += record.timings.accepted_tokens;
    }
    return outcome;
  }

  static DraftMethods Methods(const char* names) {
    return *DraftMethods::Parse(names);
  }

  static Model* model_;
  static std::vector<std::vector<TokenId>>* const prompts_;
};
Model* MtpSpeculationTest::model_ = nullptr;
std::vector<std::vector<TokenId>>* const MtpSpeculationTest::prompts_ =
    new std::vector<std::vector<TokenId>>;

TEST_F(MtpSpeculationTest, TheTextIsThatWithoutDrafts) {
  for (const float temperature : {0.0f, 0.8f}) {
    const Outcome plain = Write({{}, 0, 1, temperature});
    EXPECT_EQ(plain.drafted, 0u);
    const Setting settings[] = {{Methods("mtp"), 1, 1, temperature},
                                {Methods("mtp"), 4, 8, temperature},
                                {Methods("ngram,mtp"), 3, 8, temperature}};
    for (const Setting& setting : settings) {
      const Outcome drafted = Write(setting);
      EXPECT_EQ(drafted.tokens, plain.tokens)
          << setting.methods.Names() << " " << setting.most_drafts;
      EXPECT_GT(drafted.accepted, 0u);
      EXPECT_GT(drafted.drafted, drafted.accepted);
    }
  }
}

TEST_F(MtpSpeculationTest, TheBlockKnowsTheNextToken) {
  const Outcome alone = Write({Methods("mtp"), 1, 1});
  const double rate = static_cast<double>(alone.accepted) / alone.drafted;
  RecordProperty("acceptance_percent", static_cast<int>(100 * rate));
  // A reference in f32 agrees with the model at 31 % of these positions.
  EXPECT_GT(rate, 0.25);
  std::printf("accepted %u of %u first drafts\n", alone.accepted,
              alone.drafted);
  // Beside others it is the very same.
  const Outcome together = Write({Methods("mtp"), 1, 8});
  EXPECT_EQ(together.drafted, alone.drafted);
  EXPECT_EQ(together.accepted, alone.accepted);
}

}  // namespace
}  // namespace baton::worker
