// What the engine tests share: a small pool, a fake model over it, and the
// output that a sequence must have whatever happens around it.
#ifndef BATON_TESTS_UNIT_WORKER_ENGINE_BENCH_H_
#define BATON_TESTS_UNIT_WORKER_ENGINE_BENCH_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "services/base/clock.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/fake_forward.h"
#include "tests/support/recording_observer.h"
#include "worker/cache/block_pool.h"
#include "worker/engine/commit.h"
#include "worker/engine/engine.h"
#include "worker/sampling/sampling_chain.h"

namespace baton::worker {

inline constexpr uint32_t kBlockTokens = 4;
inline constexpr uint32_t kVocabulary = 40;
inline constexpr uint32_t kContext = 400;
inline constexpr TokenId kEosToken = 1;

struct Expected {
  std::vector<TokenId> tokens;
  FinishReason reason = FinishReason::kNone;
};

// One token at a time, from the tokens alone: no batch, no blocks.
inline Expected ExpectedOutput(const SequenceSpec& spec) {
  const std::vector<TokenId> eos = {kEosToken};
  const CommitRules rules(spec.stop, eos, kContext);
  CommittedSequence sequence(spec.tokens, spec.prompt_tokens);
  SamplingChain chain;
  Expected expected;
  while (expected.reason == FinishReason::kNone) {
    const auto logits = FakeForward::LogitsAfter(sequence.tokens, kVocabulary);
    const auto position = static_cast<uint32_t>(sequence.tokens.size());
    auto sampled = chain.Sample({.logits = logits,
                                 .params = spec.sampling,
                                 .history = sequence.history,
                                 .position = position,
                                 .masked = rules.Masked(sequence)});
    expected.tokens.push_back(sampled->token);
    expected.reason = rules.Commit(sampled->token, &sequence);
    if (spec.first_token_only) break;
  }
  return expected;
}

inline SequenceSpec Spec(std::vector<TokenId> prompt,
                         std::optional<uint32_t> max_tokens = 8) {
  SequenceSpec spec;
  spec.prompt_tokens = static_cast<uint32_t>(prompt.size());
  spec.tokens = std::move(prompt);
  spec.stop.max_tokens = max_tokens;
  spec.sampling.seed = 11;
  return spec;
}

inline std::vector<TokenId> Prompt(uint32_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(length);
  for (TokenId& token : tokens) {
    token = 2 + static_cast<TokenId>(random() % (kVocabulary - 2));
  }
  return tokens;
}

// Prompts that often share a prefix, with varied parameters.
inline SequenceSpec RandomSpec(std::mt19937_64* random) {
  const auto below = [&](uint32_t n) {
    return static_cast<uint32_t>((*random)() % n);
  };
  std::vector<TokenId> prompt = Prompt(1 + below(30), below(3));
  const std::vector<TokenId> rest = Prompt(below(12), (*random)());
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  SequenceSpec spec = Spec(std::move(prompt), 1 + below(20));
  spec.sampling.seed = (*random)();
  spec.sampling.temperature = below(3) * 0.6f;
  spec.sampling.top_k = static_cast<int32_t>(below(2) * 10);
  spec.sampling.frequency_penalty = below(2) * 0.7f;
  spec.sampling.repetition_penalty = 1.0f + below(2) * 0.3f;
  spec.stop.ignore_eos = below(2) == 0;
  return spec;
}

struct EngineBench {
  explicit EngineBench(uint32_t blocks = 64)
      : pool(*BlockPool::Create(
            {.block_bytes = FakeForward::kRowBytes * kBlockTokens,
             .blocks = blocks,
             .block_tokens = kBlockTokens})),
        forward(pool.get(), kVocabulary, kContext),
        registry(telemetry::PrometheusMetrics::Create("decode")) {
    options.eos_tokens = {kEosToken};
    options.model_name = "fake";
    options.max_batch_tokens = 16;
    options.max_sequences = 4;
    options.max_prefill_tokens_beside_decode = 6;
  }

  // The value of a series, by the start of its exposition line.
  double Metric(const std::string& series) const {
    const std::string text = registry->Exposition();
    const size_t at = text.find("\n" + series + " ");
    EXPECT_NE(at, std::string::npos) << series << " is not in\n" << text;
    if (at == std::string::npos) return -1;
    return std::stod(text.substr(at + series.size() + 2));
  }

  Engine::Options options;
  std::unique_ptr<BlockPool> pool;
  FakeForward forward;
  SystemClock clock;
  std::unique_ptr<telemetry::PrometheusMetrics> registry;
};

inline void ExpectOutput(const SequenceSpec& spec,
                         const RecordingObserver::Record& record) {
  const Expected expected = ExpectedOutput(spec);
  EXPECT_EQ(record.finished_calls, 1);
  ASSERT_TRUE(record.result.has_value());
  ASSERT_TRUE(record.result->ok()) << record.result->status();
  EXPECT_EQ(**record.result, expected.reason);
  EXPECT_EQ(record.tokens, expected.tokens);
  ASSERT_EQ(record.positions.size(), record.tokens.size());
  for (size_t i = 0; i < record.positions.size(); ++i) {
    EXPECT_EQ(record.positions[i], spec.tokens.size() + i);
  }
  // The last committed token was never fed.
  EXPECT_EQ(record.kv_tokens, spec.tokens.size() + record.tokens.size() - 1);
  EXPECT_EQ(record.timings.generated_tokens, record.tokens.size());
}

}  // namespace baton::worker

#endif  // BATON_TESTS_UNIT_WORKER_ENGINE_BENCH_H_
