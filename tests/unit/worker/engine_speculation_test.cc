// Drafts change how many steps a sequence takes, and nothing else.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/replay_drafter.h"
#include "tests/unit/worker/loop_bench.h"
#include "worker/speculation/ngram_drafter.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Whole(const SequenceSpec& spec) {
  std::vector<TokenId> tokens = spec.tokens;
  const std::vector<TokenId> output = ExpectedOutput(spec).tokens;
  tokens.insert(tokens.end(), output.begin(), output.end());
  return tokens;
}

// Everything that an observer sees of the tokens themselves.
void ExpectSameTokens(const RecordingObserver::Record& a,
                      const RecordingObserver::Record& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.full_blocks, b.full_blocks);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.kv_tokens, b.kv_tokens);
  ASSERT_EQ(a.sampled.size(), b.sampled.size());
  for (size_t i = 0; i < a.sampled.size(); ++i) {
    EXPECT_EQ(a.sampled[i].logprob, b.sampled[i].logprob);
    ASSERT_EQ(a.sampled[i].top_logprobs.size(),
              b.sampled[i].top_logprobs.size());
    for (size_t j = 0; j < a.sampled[i].top_logprobs.size(); ++j) {
      EXPECT_EQ(a.sampled[i].top_logprobs[j].token,
                b.sampled[i].top_logprobs[j].token);
      EXPECT_EQ(a.sampled[i].top_logprobs[j].logprob,
                b.sampled[i].top_logprobs[j].logprob);
    }
  }
}

class SpeculationTest : public ::testing::TestWithParam<uint32_t> {};

// All lengths and every share of accepted drafts, with penalties, stops and
// lengths inside the window, blocks too few for all, and small batches.
TEST_P(SpeculationTest, ChangesNoToken) {
  const uint32_t length = GetParam();
  std::mt19937_64 random(7);
  std::vector<SequenceSpec> specs;
  for (int i = 0; i < 12; ++i) {
    specs.push_back(RandomSpec(&random));
    specs.back().stop.max_tokens = 1 + random() % 40;
    specs.back().sampling.logprobs = true;
    specs.back().sampling.top_logprobs = 2;
    if (i % 3 == 0) specs.back().stop.stop_token_ids = {5, 9};
    if (i % 4 == 0) {
      specs.back().stop.min_tokens = std::min(6u, *specs[i].stop.max_tokens);
    }
  }
  uint32_t accepted = 0, refused = 0;
  for (const uint32_t blocks : {24u, 200u}) {
    for (const uint32_t batch : {4u, 64u}) {
      for (const uint32_t mistakes : {0u, 15u, 50u, 100u}) {
        SCOPED_TRACE(testing::Message() << blocks << " blocks, batch " << batch
                                        << ", mistakes " << mistakes);
        LoopBench plain(blocks), drafting(blocks);
        ReplayDrafter drafter(length, mistakes, kVocabulary);
        drafting.drafter = &drafter;
        std::vector<std::shared_ptr<RecordingObserver>> expected, got;
        for (LoopBench* bench : {&plain, &drafting}) {
          bench->options.max_batch_tokens = batch;
          bench->options.most_drafts = 8;
          for (const SequenceSpec& spec : specs) {
            auto& observers = bench == &plain ? expected : got;
            observers.push_back(bench->Add(spec));
            if (bench == &drafting) {
              drafter.Script(SequenceId(bench->last_id), Whole(spec));
            }
            bench->Loop().Step();
          }
          bench->Drain();
          bench->ExpectNothingHeld();
        }
        EXPECT_EQ(drafter.scripts(), 0u) << "a sequence was not forgotten";
        for (size_t i = 0; i < specs.size(); ++i) {
          SCOPED_TRACE(testing::Message() << "sequence " << i);
          ExpectOutput(specs[i], got[i]->Get());
          ExpectSameTokens(got[i]->Get(), expected[i]->Get());
          const SequenceTimings timings = got[i]->Get().timings;
          accepted += timings.accepted_tokens;
          refused += timings.drafted_tokens - timings.accepted_tokens;
          if (mistakes == 100) {
            EXPECT_EQ(timings.accepted_tokens, 0u);
          }
        }
      }
    }
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_GT(refused, 0u);
}
INSTANTIATE_TEST_SUITE_P(Lengths, SpeculationTest,
                         ::testing::Values(0, 1, 2, 3, 4, 5, 8),
                         [](const auto& info) {
                           return info.param == 0
                                      ? std::string("Varying")
                                      : "Of" + std::to_string(info.param);
                         });

TEST(SpeculationTest, RightDraftsSaveTheirSteps) {
  LoopBench bench;
  ReplayDrafter drafter(3, 0, kVocabulary);
  bench.drafter = &drafter;
  bench.options.most_drafts = 3;
  SequenceSpec spec = Spec(Prompt(5, 3), 13);
  spec.stop.ignore_eos = true;
  auto observer = bench.Add(spec);
  drafter.Script(SequenceId(bench.last_id), Whole(spec));
  int steps = 0;
  while (bench.Loop().Step() != StepOutcome::kIdle) ++steps;
  // The prompt's step gives one token, three more give four each.
  EXPECT_EQ(steps, 4);
  ExpectOutput(spec, observer->Get());
  const SequenceTimings timings = observer->Get().timings;
  EXPECT_EQ(timings.drafted_tokens, 9u);
  EXPECT_EQ(timings.accepted_tokens, 9u);
  const std::string labels = "{method=\"ngram\",model_name=\"fake\"";
  EXPECT_EQ(bench.Metric("baton_spec_decode_drafts_total" + labels + "}"), 3);
  EXPECT_EQ(bench.Metric("baton_spec_decode_draft_tokens_total" + labels + "}"),
            9);
  EXPECT_EQ(
      bench.Metric("baton_spec_decode_accepted_tokens_total" + labels + "}"),
      9);
  EXPECT_EQ(
      bench.Metric("baton_spec_decode_accepted_tokens_per_position_total" +
                   labels + ",position=\"2\"}"),
      3);
}

// The limits of the engine, of the request, and of what is left to write.
TEST(SpeculationTest, DraftsNoMoreThanAllowed) {
  for (const auto& [engine, request, wanted] :
       {std::tuple{2u, 8u, 2u}, {8u, 2u, 2u}, {8u, 0u, 0u}, {0u, 8u, 0u}}) {
    LoopBench bench;
    ReplayDrafter drafter(8, 0, kVocabulary);
    bench.drafter = &drafter;
    bench.options.most_drafts = engine;
    SequenceSpec spec = Spec(Prompt(5, 3), 4);
    spec.stop.ignore_eos = true;
    spec.most_drafts = request;
    auto observer = bench.Add(spec);
    drafter.Script(SequenceId(bench.last_id), Whole(spec));
    std::vector<size_t> rows;
    bench.forward.on_run = [&](const StepBatch& batch) {
      rows.push_back(batch.sequences[0].tokens.size());
    };
    bench.Drain();
    ASSERT_GE(rows.size(), 2u);
    EXPECT_EQ(rows[1], 1 + wanted);
    EXPECT_EQ(observer->Get().tokens.size(), 4u);
  }
}

// A row behind the window's first whose logits are broken: what came before it
// is written, and the fault is that sequence's alone.
TEST(SpeculationTest, BrokenLogitsInsideTheWindow) {
  const SequenceSpec spec = Spec(Prompt(9, 4), 12);
  const std::vector<TokenId> output = ExpectedOutput(spec).tokens;
  ASSERT_GT(output.size(), 6u);
  const TokenId broken = output[4];
  const size_t first = static_cast<size_t>(
      std::find(output.begin(), output.end(), broken) - output.begin());
  ASSERT_EQ(std::count(spec.tokens.begin(), spec.tokens.end(), broken), 0);
  LoopBench bench;
  bench.forward.broken_token = broken;
  ReplayDrafter drafter(8, 0, kVocabulary);
  bench.drafter = &drafter;
  bench.options.most_drafts = 8;
  auto observer = bench.Add(spec, /*keep_blocks=*/true);
  drafter.Script(SequenceId(bench.last_id), Whole(spec));
  bench.Drain();
  const auto record = observer->Get();
  EXPECT_EQ(record.result->status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(record.tokens,
            std::vector<TokenId>(
                output.begin(), output.begin() + static_cast<long>(first) + 1));
  EXPECT_EQ(record.kv_tokens, spec.tokens.size() + first);
}

TEST(SuffixIndexTest, ContinuesTheLongestOccurrence) {
  SuffixIndex index;
  //                            0  1  2  3  4  5  6  7  8  9 10 11 12 13 14
  const std::vector<TokenId> t{7, 1, 2, 3, 10, 8, 1, 2, 3, 11, 7, 1, 2, 3};
  EXPECT_THAT(index.Continuation(t, 2), ElementsAre(10, 8));
}

TEST(SuffixIndexTest, TakesTheLatestOfEquals) {
  SuffixIndex index;
  const std::vector<TokenId> t{1, 2, 3, 10, 1, 2, 3, 11, 5, 1, 2, 3};
  EXPECT_THAT(index.Continuation(t, 1), ElementsAre(11));
}

TEST(SuffixIndexTest, NeedsThreeEqualTokens) {
  SuffixIndex index;
  EXPECT_THAT(index.Continuation(std::vector<TokenId>{}, 4), IsEmpty());
  EXPECT_THAT(index.Continuation(std::vector<TokenId>{1, 2}, 4), IsEmpty());
  EXPECT_THAT(index.Continuation(std::vector<TokenId>{1, 2, 4, 9, 1, 2}, 4),
              IsEmpty());
}

TEST(SuffixIndexTest, GoesRoundInCircles) {
  SuffixIndex index;
  const std::vector<TokenId> t{4, 5, 4, 5, 4, 5};
  EXPECT_THAT(index.Continuation(t, 5), ElementsAre(4, 5, 4, 5, 4));
}

// Fed piece by piece or at once, against a search of the whole text.
TEST(SuffixIndexTest, GrowsWithItsSequence) {
  std::mt19937 random(3);
  std::vector<TokenId> tokens;
  SuffixIndex index;
  int found = 0;
  for (int i = 0; i < 400; ++i) {
    for (uint32_t n = random() % 4; n > 0; --n) {
      tokens.push_back(static_cast<TokenId>(random() % 3));
    }
    SuffixIndex fresh;
    const auto draft = index.Continuation(tokens, 6);
    EXPECT_EQ(draft, fresh.Continuation(tokens, 6));
    if (draft.empty()) continue;
    ++found;
    EXPECT_EQ(draft.size(), 6u);
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace baton::worker
