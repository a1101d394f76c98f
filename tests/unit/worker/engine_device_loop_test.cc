// The engine step by step, on one thread.
#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/loop_bench.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DeviceLoopTest, OneSequenceGivesWhatItsTokensAloneGive) {
  LoopBench bench;
  const SequenceSpec spec = Spec(Prompt(21, 1), 12);
  auto observer = bench.Add(spec);
  bench.Drain();
  ExpectOutput(spec, observer->Get());
  bench.ExpectNothingHeld();
}

TEST(DeviceLoopTest, OutputDependsOnNeitherBatchNorChunksNorPreemption) {
  std::mt19937_64 random(5);
  std::vector<SequenceSpec> specs;
  for (int i = 0; i < 14; ++i) specs.push_back(RandomSpec(&random));
  int preempting = 0;
  for (const uint32_t blocks : {18u, 24u, 200u}) {
    for (const uint32_t batch : {4u, 7u, 64u}) {
      for (const uint32_t beside : {1u, 5u, 64u}) {
        SCOPED_TRACE(testing::Message() << blocks << " blocks, batch " << batch
                                        << ", beside " << beside);
        LoopBench bench(blocks);
        bench.options.max_batch_tokens = batch;
        bench.options.max_prefill_tokens_beside_decode = beside;
        std::vector<std::shared_ptr<RecordingObserver>> observers;
        for (const SequenceSpec& spec : specs) {
          observers.push_back(bench.Add(spec));
          bench.Loop().Step();
        }
        bench.Drain();
        for (size_t i = 0; i < specs.size(); ++i) {
          SCOPED_TRACE(testing::Message() << "sequence " << i);
          ExpectOutput(specs[i], observers[i]->Get());
        }
        bench.ExpectNothingHeld();
        preempting +=
            bench.Metric("baton_preemptions_total{model_name=\"fake\"}") > 0;
      }
    }
  }
  EXPECT_GT(preempting, 0) << "no run was tight enough to preempt";
}

TEST(DeviceLoopTest, ASharedPrefixIsComputedOnce) {
  LoopBench bench;
  const SequenceSpec first = Spec(Prompt(18, 1));
  auto a = bench.Add(first);
  bench.Drain();
  EXPECT_EQ(a->Get().timings.computed_tokens, 18u);
  std::vector<TokenId> longer = first.tokens;
  const std::vector<TokenId> rest = Prompt(5, 2);
  longer.insert(longer.end(), rest.begin(), rest.end());
  const SequenceSpec second = Spec(longer);
  auto b = bench.Add(second);
  bench.Drain();
  ExpectOutput(second, b->Get());
  // 4 whole blocks of the 18 tokens.
  EXPECT_EQ(b->Get().timings.computed_tokens, 23u - 16u);
  EXPECT_THAT(b->Get().progress.front(), std::make_pair(16u, 23u));
  EXPECT_EQ(b->Get().keys, kvstore::BlockKeys(
                               second.root_key,
                               [&] {
                                 std::vector<TokenId> fed = second.tokens;
                                 const auto record = b->Get();
                                 fed.insert(fed.end(), record.tokens.begin(),
                                            record.tokens.end() - 1);
                                 return fed;
                               }(),
                               kBlockTokens));
}

TEST(DeviceLoopTest, AnotherRootKeyShowsNothingOfThePrefix) {
  LoopBench bench;
  SequenceSpec spec = Spec(Prompt(18, 1));
  bench.Add(spec);
  bench.Drain();
  spec.root_key.bytes[0] = 1;
  auto other = bench.Add(spec);
  bench.Drain();
  EXPECT_EQ(other->Get().timings.computed_tokens, 18u);
  ExpectOutput(spec, other->Get());
}

TEST(DeviceLoopTest, AWholePromptInTheCacheStillComputesItsLastBlock) {
  LoopBench bench;
  const SequenceSpec spec = Spec(Prompt(16, 1));
  bench.Add(spec);
  bench.Drain();
  auto again = bench.Add(spec);
  bench.Drain();
  ExpectOutput(spec, again->Get());
  EXPECT_EQ(again->Get().timings.computed_tokens, 4u);
}

TEST(DeviceLoopTest, PromptsThatArriveTogetherShareTheirWork) {
  LoopBench bench;
  const SequenceSpec spec = Spec(Prompt(60, 1), 3);
  auto a = bench.Add(spec);
  auto b = bench.Add(spec);
  bench.Drain();
  ExpectOutput(spec, a->Get());
  ExpectOutput(spec, b->Get());
  EXPECT_EQ(a->Get().timings.computed_tokens, 60u);
  EXPECT_LT(b->Get().timings.computed_tokens, 20u);
}

TEST(DeviceLoopTest, AHalfComputedBlockGivesWayToACachedWholeOne) {
  LoopBench bench;
  bench.options.max_batch_tokens = 6;
  const SequenceSpec first = Spec(Prompt(9, 1), 3);
  auto a = bench.Add(first);
  bench.Loop().Step();  // first: 6 rows
  std::vector<TokenId> longer = first.tokens;
  longer.resize(20, 5);
  const SequenceSpec second = Spec(longer);
  auto b = bench.Add(second);
  bench.Loop().Step();  // first: 3 rows, which fill block 1; second: 4 to 6
  bench.Drain();
  ExpectOutput(first, a->Get());
  ExpectOutput(second, b->Get());
  // Rows 4 to 6, then 8 to 19: row 7 came with the cached block.
  EXPECT_EQ(b->Get().timings.computed_tokens, 15u);
}

TEST(DeviceLoopTest, ContinuesFromRestoredBlocksWithAPartialLast) {
  const SequenceSpec whole = Spec(Prompt(18, 1), 12);
  LoopBench bench;
  SequenceSpec prefill = whole;
  prefill.first_token_only = true;
  auto first = bench.Add(prefill, /*keep_blocks=*/true);
  bench.Drain();
  RecordingObserver::Record record = first->Get();
  ExpectOutput(prefill, record);
  EXPECT_EQ(**record.result, FinishReason::kNone);
  ASSERT_EQ(record.kv_tokens, 18u);
  ASSERT_EQ(record.blocks.size(), 5u);

  SequenceSpec decode = whole;
  decode.tokens.push_back(record.tokens[0]);
  decode.restored_tokens = 18;
  decode.restored = std::move(record.blocks);
  first->DropBlocks();
  auto second = bench.Add(std::move(decode));
  bench.Drain();
  const Expected expected = ExpectedOutput(whole);
  const auto resumed = second->Get();
  ASSERT_TRUE(resumed.result->ok());
  EXPECT_EQ(**resumed.result, expected.reason);
  EXPECT_EQ(resumed.tokens, std::vector<TokenId>(expected.tokens.begin() + 1,
                                                 expected.tokens.end()));
  EXPECT_EQ(resumed.timings.computed_tokens, 1u);
  // Blocks 0 to 3 came with the sequence.
  EXPECT_EQ(resumed.full_blocks.front(), 4u);
  second.reset();
  bench.ExpectNothingHeld();
}

TEST(DeviceLoopTest, ResumesElsewhereFromCommittedTokensAlone) {
  SequenceSpec whole = Spec(Prompt(10, 3), 16);
  whole.sampling.frequency_penalty = 1.0f;
  whole.sampling.temperature = 0.9f;
  whole.stop.ignore_eos = true;
  const Expected expected = ExpectedOutput(whole);
  for (size_t cut : {1u, 7u, 15u}) {
    LoopBench bench;
    SequenceSpec rest = whole;
    rest.tokens.insert(rest.tokens.end(), expected.tokens.begin(),
                       expected.tokens.begin() + cut);
    auto observer = bench.Add(rest);
    bench.Drain();
    EXPECT_EQ(observer->Get().tokens,
              std::vector<TokenId>(expected.tokens.begin() + cut,
                                   expected.tokens.end()));
  }
}

TEST(DeviceLoopTest, EndsByEosStopTokenLengthAndContext) {
  const auto run = [](SequenceSpec spec) {
    LoopBench bench(200);
    auto observer = bench.Add(spec);
    bench.Drain();
    ExpectOutput(spec, observer->Get());
    return observer->Get();
  };
  SequenceSpec spec = Spec(Prompt(6, 1), 200);
  const auto eos = run(spec);
  EXPECT_EQ(**eos.result, FinishReason::kStop);
  EXPECT_EQ(eos.tokens.back(), kEosToken);

  spec.stop.ignore_eos = true;
  const auto length = run(spec);
  EXPECT_EQ(**length.result, FinishReason::kLength);
  EXPECT_EQ(length.tokens.size(), 200u);

  spec.stop.stop_token_ids = {length.tokens[4]};
  const auto stop = run(spec);
  EXPECT_EQ(**stop.result, FinishReason::kStop);
  EXPECT_LE(stop.tokens.size(), 5u);
  EXPECT_EQ(stop.tokens.back(), length.tokens[4]);

  spec.stop.min_tokens = 150;
  const auto late = run(spec);
  EXPECT_GE(late.tokens.size(), 150u);
  EXPECT_EQ(std::count(late.tokens.begin(), late.tokens.begin() + 150,
                       length.tokens[4]),
            0);

  spec.stop = {.ignore_eos = true};
  const auto full = run(spec);
  EXPECT_EQ(**full.result, FinishReason::kLength);
  EXPECT_EQ(spec.tokens.size() + full.tokens.size(), kContext);
}

TEST(DeviceLoopTest, CancelInEachStateReturnsEveryBlock) {
  // Steps before the cancel: none (waiting), one (first chunk of 40), three
  // (decoding), and the second sequence waiting behind the first.
  for (const int steps : {0, 1, 3, 5}) {
    LoopBench bench;
    bench.options.max_sequences = 1;
    auto first = bench.Add(Spec(Prompt(40, 1), 50));
    auto second = bench.Add(Spec(Prompt(9, 2), 50));
    for (int i = 0; i < steps; ++i) bench.Loop().Step();
    bench.Loop().Cancel(SequenceId(2));
    bench.Loop().Cancel(SequenceId(1));
    bench.Loop().Cancel(SequenceId(1));
    bench.Loop().Cancel(SequenceId(99));
    for (const auto& observer : {first, second}) {
      EXPECT_EQ(observer->Get().finished_calls, 1);
      EXPECT_EQ(observer->Get().result->status().code(),
                absl::StatusCode::kCancelled);
    }
    bench.ExpectNothingHeld();
    EXPECT_EQ(bench.Loop().Step(), StepOutcome::kIdle);
    EXPECT_EQ(bench.Loop().TakeEnded().size(), 2u);
  }
}

TEST(DeviceLoopTest, APreemptedSequenceCanBeCancelled) {
  LoopBench bench(8);
  bench.options.max_sequences = 2;
  SequenceSpec spec = Spec(Prompt(8, 1), 20);
  spec.stop.ignore_eos = true;
  auto first = bench.Add(spec);
  SequenceSpec young = Spec(Prompt(8, 2), 20);
  young.stop.ignore_eos = true;
  auto second = bench.Add(young);
  for (int i = 0; i < 100; ++i) {
    bench.Loop().Step();
    if (bench.Metric("baton_preemptions_total{model_name=\"fake\"}") > 0) break;
  }
  EXPECT_EQ(bench.Metric("baton_preemptions_total{model_name=\"fake\"}"), 1);
  EXPECT_EQ(bench.Loop().load().waiting, 1u);
  bench.Loop().Cancel(SequenceId(2));
  EXPECT_EQ(second->Get().result->status().code(),
            absl::StatusCode::kCancelled);
  bench.Drain();
  ExpectOutput(spec, first->Get());
  bench.ExpectNothingHeld();
}

TEST(DeviceLoopTest, BrokenLogitsEndOnlyTheirOwnSequence) {
  LoopBench bench;
  const SequenceSpec good = Spec(Prompt(9, 1), 20);
  SequenceSpec bad = Spec(Prompt(9, 2), 20);
  // 0 is not in any random prompt; bias keeps it out of the good output.
  bad.tokens.back() = 0;
  bench.forward.broken_token = 0;
  SequenceSpec wary = good;
  wary.sampling.logit_bias = {{0, -100.0f}};
  auto a = bench.Add(wary);
  auto b = bench.Add(bad);
  bench.Drain();
  ExpectOutput(wary, a->Get());
  EXPECT_EQ(b->Get().result->status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(b->Get().tokens, IsEmpty());
  bench.ExpectNothingHeld();
}

TEST(DeviceLoopTest, AFailedPassEndsThatStepsSequencesAndTheLoopGoesOn) {
  LoopBench bench;
  bench.options.max_sequences = 2;
  bench.forward.failing_token = 0;
  SequenceSpec bad = Spec(Prompt(9, 2), 20);
  bad.tokens[3] = 0;
  SequenceSpec later = Spec(Prompt(9, 3), 20);
  later.sampling.logit_bias = {{0, -100.0f}};
  auto a = bench.Add(bad);
  auto b = bench.Add(bad);
  auto c = bench.Add(later);
  bench.Drain();
  EXPECT_EQ(a->Get().result->status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(b->Get().result->status().code(), absl::StatusCode::kInternal);
  ExpectOutput(later, c->Get());
  bench.ExpectNothingHeld();
}

TEST(DeviceLoopTest, RunningStreamsGetARowInEachStepBesideALongPrompt) {
  LoopBench bench;
  SequenceSpec stream = Spec(Prompt(4, 1), 60);
  stream.stop.ignore_eos = true;
  auto observer = bench.Add(stream);
  bench.Loop().Step();
  bench.Add(Spec(Prompt(120, 2), 1));
  size_t steps = 0;
  bench.forward.on_run = [&](const StepBatch& batch) {
    ++steps;
    uint32_t prompt_rows = 0;
    EXPECT_EQ(batch.sequences[0].tokens.size(), 1u);
    for (size_t i = 1; i < batch.sequences.size(); ++i) {
      prompt_rows += static_cast<uint32_t>(batch.sequences[i].tokens.size());
    }
    EXPECT_LE(prompt_rows, 6u);
  };
  const size_t before = observer->Get().tokens.size();
  for (int i = 0; i < 20; ++i) bench.Loop().Step();
  EXPECT_EQ(steps, 20u);
  EXPECT_EQ(observer->Get().tokens.size(), before + 20);
  bench.forward.on_run = nullptr;
  bench.Drain();
}

TEST(DeviceLoopTest, OutgrowingThePoolFailsWithResourceExhausted) {
  LoopBench bench(3);
  SequenceSpec spec = Spec(Prompt(8, 1), 100);
  spec.stop.ignore_eos = true;
  auto observer = bench.Add(spec);
  bench.Drain();
  const auto record = observer->Get();
  EXPECT_EQ(record.result->status().code(),
            absl::StatusCode::kResourceExhausted);
  // 12 rows, and one token more than rows.
  EXPECT_EQ(record.kv_tokens, 12u);
  EXPECT_EQ(record.tokens.size(), 5u);
  bench.ExpectNothingHeld();
}

TEST(DeviceLoopTest, WaitsForBlocksThatAreHeldElsewhere) {
  LoopBench bench(6);
  auto elsewhere = *bench.pool->TryAllocate(4);
  const SequenceSpec spec = Spec(Prompt(12, 1), 4);
  auto observer = bench.Add(spec);
  EXPECT_EQ(bench.Loop().Step(), StepOutcome::kStalled);
  EXPECT_FALSE(observer->Get().result.has_value());
  elsewhere.clear();
  bench.Drain();
  ExpectOutput(spec, observer->Get());
}

TEST(DeviceLoopTest, ProgressAndFullBlocksComeOnceAndInOrder) {
  LoopBench bench(20);
  bench.options.max_batch_tokens = 7;
  std::mt19937_64 random(3);
  std::vector<SequenceSpec> specs;
  std::vector<std::shared_ptr<RecordingObserver>> observers;
  for (int i = 0; i < 8; ++i) {
    specs.push_back(RandomSpec(&random));
    observers.push_back(bench.Add(specs.back()));
  }
  bench.Drain();
  EXPECT_GT(bench.Metric("baton_preemptions_total{model_name=\"fake\"}"), 0);
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto record = observers[i]->Get();
    ASSERT_EQ(record.full_blocks.size(), record.kv_tokens / kBlockTokens);
    for (uint32_t b = 0; b < record.full_blocks.size(); ++b) {
      EXPECT_EQ(record.full_blocks[b], b);
    }
    EXPECT_TRUE(std::is_sorted(record.progress.begin(), record.progress.end()));
    EXPECT_EQ(record.progress.back().first, specs[i].tokens.size());
    EXPECT_LE(record.timings.computed_tokens, specs[i].tokens.size());
  }
}

TEST(DeviceLoopTest, HundredsOfRequestsWithCancelsLeaveNothingHeld) {
  std::mt19937_64 random(2026);
  LoopBench bench(30);
  struct Request {
    SequenceSpec spec;
    std::shared_ptr<RecordingObserver> observer;
    bool cancelled = false;
  };
  std::vector<Request> requests;
  for (int i = 0; i < 500; ++i) {
    Request request{RandomSpec(&random)};
    request.observer = bench.Add(request.spec);
    requests.push_back(std::move(request));
    for (uint64_t steps = random() % 6; steps > 0; --steps) bench.Loop().Step();
    if (random() % 10 >= 3) continue;
    const uint64_t victim = requests.size() - random() % 4;
    if (victim == 0 || victim > requests.size()) continue;
    bench.Loop().Cancel(SequenceId(victim));
    requests[victim - 1].cancelled = true;
  }
  bench.Drain();
  bench.ExpectNothingHeld();
  EXPECT_EQ(bench.Loop().TakeEnded().size(), 500u);
  int cancelled = 0;
  for (const Request& request : requests) {
    const auto record = request.observer->Get();
    ASSERT_EQ(record.finished_calls, 1);
    if (request.cancelled && !record.result->ok()) {
      EXPECT_EQ(record.result->status().code(), absl::StatusCode::kCancelled);
      ++cancelled;
    } else {
      ExpectOutput(request.spec, record);
    }
  }
  EXPECT_GT(cancelled, 50);
  EXPECT_EQ(bench.Loop().load().running, 0u);
  EXPECT_EQ(bench.Loop().load().waiting, 0u);
}

TEST(DeviceLoopTest, CountsEachTokenOnce) {
  LoopBench bench;
  const SequenceSpec spec = Spec(Prompt(10, 1), 5);
  auto observer = bench.Add(spec);
  bench.Drain();
  const auto tokens = static_cast<double>(observer->Get().tokens.size());
  EXPECT_EQ(bench.Metric("baton_generation_tokens_total{model_name=\"fake\"}"),
            tokens);
  EXPECT_EQ(bench.Metric(
                "baton_inter_token_latency_seconds_count{model_name=\"fake\"}"),
            tokens - 1);
  EXPECT_EQ(bench.Metric(
                "baton_step_tokens_sum{model_name=\"fake\",phase=\"prefill\"}"),
            10);
  EXPECT_EQ(bench.Metric(
                "baton_step_tokens_sum{model_name=\"fake\",phase=\"decode\"}"),
            tokens - 1);
}

}  // namespace
}  // namespace baton::worker
