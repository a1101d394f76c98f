// The law of what is written, with drafts: that of the model and the chain.
//
// Analytic: every sequence of a toy vocabulary, every draft, numbers at the
// edges of what must give that sequence. So the measure of the numbers that
// give a sequence is its probability, up to the width of an edge.
// Statistical: the real generator, many seeds, a chi-square test.
//
// The law is written down here a second time, in the plainest way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/worker/loop_bench.h"

namespace baton::worker {
namespace {

constexpr uint32_t kTokens = 4;  // of the toy vocabulary; kEosToken is 1
constexpr uint32_t kLength = 3;
constexpr double kEdge = 1e-12;

struct Option {
  std::string name;
  SamplingParams sampling;
  StopConditions stop;
};

// Tokens and their probabilities in the order of the draw: the likeliest
// first, ties by the lowest id.
using Law = std::vector<std::pair<TokenId, double>>;

Law NextLaw(const Option& option, std::span<const TokenId> tokens,
            uint32_t prompt_tokens, uint32_t vocabulary) {
  const SamplingParams& params = option.sampling;
  std::vector<float> logits = FakeForward::LogitsAfter(tokens, vocabulary);
  for (uint32_t id = 0; id < vocabulary; ++id) {
    double logit = logits[id];
    for (const auto& [token, bias] : params.logit_bias) {
      if (token == static_cast<TokenId>(id)) logit += bias;
    }
    const auto count = [&](std::span<const TokenId> part) {
      return std::count(part.begin(), part.end(), static_cast<TokenId>(id));
    };
    if (count(tokens) > 0) {
      const double repetition = params.repetition_penalty;
      logit = logit > 0 ? logit / repetition : logit * repetition;
    }
    if (const auto output = count(tokens.subspan(prompt_tokens)); output > 0) {
      logit -= params.presence_penalty;
      logit -= static_cast<double>(params.frequency_penalty) *
               static_cast<double>(output);
    }
    logits[id] = static_cast<float>(logit);
  }
  std::vector<TokenId> ids(vocabulary);
  std::iota(ids.begin(), ids.end(), 0);
  if (tokens.size() - prompt_tokens < option.stop.min_tokens) {
    std::erase_if(ids, [&](TokenId id) {
      return id == kEosToken && !option.stop.ignore_eos;
    });
  }
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ids.size()) {
    ids.resize(static_cast<size_t>(params.top_k));
  }
  const auto weight = [&](TokenId id, double temperature) {
    return std::exp((static_cast<double>(logits[id]) - logits[ids[0]]) /
                    temperature);
  };
  double total = 0;
  for (const TokenId id : ids) total += weight(id, 1);
  size_t kept = 0;
  for (double sum = 0; kept < ids.size(); ++kept) {
    if (kept > 0 && weight(ids[kept], 1) < params.min_p) break;
    if (params.top_p < 1 && kept > 0 && sum >= params.top_p * total) break;
    sum += weight(ids[kept], 1);
  }
  ids.resize(kept);
  Law law;
  if (params.temperature == 0) return {{ids[0], 1.0}};
  double drawn = 0;
  for (const TokenId id : ids) drawn += weight(id, params.temperature);
  for (const TokenId id : ids) {
    law.push_back({id, weight(id, params.temperature) / drawn});
  }
  return law;
}

struct Path {
  std::vector<TokenId> tokens;
  // Of the numbers that draw each of them.
  std::vector<std::pair<double, double>> intervals;
  double probability = 1;
};

// Every answer that the law allows, ended by kLength or the end token.
void Collect(const Option& option, uint32_t vocabulary,
             std::vector<TokenId>* tokens, uint32_t prompt_tokens, Path path,
             std::vector<Path>* paths) {
  const bool ended = !path.tokens.empty() && !option.stop.ignore_eos &&
                     path.tokens.back() == kEosToken;
  if (ended || path.tokens.size() == kLength) {
    paths->push_back(std::move(path));
    return;
  }
  double low = 0;
  for (const auto& [token, chance] :
       NextLaw(option, *tokens, prompt_tokens, vocabulary)) {
    Path longer = path;
    longer.tokens.push_back(token);
    longer.intervals.push_back({low, low + chance});
    longer.probability *= chance;
    low += chance;
    tokens->push_back(token);
    Collect(option, vocabulary, tokens, prompt_tokens, std::move(longer),
            paths);
    tokens->pop_back();
  }
}

std::vector<Path> AllPaths(const Option& option,
                           const std::vector<TokenId>& prompt,
                           uint32_t vocabulary) {
  std::vector<Path> paths;
  std::vector<TokenId> tokens = prompt;
  Collect(option, vocabulary, &tokens, static_cast<uint32_t>(prompt.size()), {},
          &paths);
  return paths;
}

// Always the same draft.
class FixedDrafter final : public Drafter {
 public:
  std::vector<TokenId> draft;
  DraftMethods methods() const override { return DraftMethods::All(); }
  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override {
    std::vector<Draft> drafts(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      drafts[i].tokens = draft;
      drafts[i].tokens.resize(std::min<size_t>(draft.size(), requests[i].most));
    }
    return drafts;
  }
  void Forget(SequenceId) override {}
};

std::vector<Option> Options() {
  std::vector<Option> options;
  const auto add = [&](const std::string& name, auto change) {
    Option option;
    option.name = name;
    option.sampling.temperature = 1;
    option.stop.ignore_eos = true;
    change(&option);
    options.push_back(std::move(option));
  };
  add("plain", [](Option*) {});
  add("end", [](Option* o) { o->stop.ignore_eos = false; });
  add("end_not_before_2", [](Option* o) {
    o->stop.ignore_eos = false;
    o->stop.min_tokens = 2;
  });
  add("cold", [](Option* o) { o->sampling.temperature = 0.6f; });
  add("greedy", [](Option* o) { o->sampling.temperature = 0; });
  add("top_k", [](Option* o) { o->sampling.top_k = 2; });
  add("top_p", [](Option* o) { o->sampling.top_p = 0.7f; });
  add("min_p", [](Option* o) { o->sampling.min_p = 0.2f; });
  add("bias", [](Option* o) { o->sampling.logit_bias = {{2, 3.5f}}; });
  add("repetition", [](Option* o) { o->sampling.repetition_penalty = 1.8f; });
  add("presence", [](Option* o) { o->sampling.presence_penalty = 1.7f; });
  add("frequency", [](Option* o) { o->sampling.frequency_penalty = 1.2f; });
  add("all", [](Option* o) {
    o->stop.ignore_eos = false;
    o->stop.min_tokens = 1;
    o->sampling.temperature = 1.3f;
    o->sampling.top_k = 3;
    o->sampling.top_p = 0.95f;
    o->sampling.min_p = 0.01f;
    o->sampling.repetition_penalty = 1.3f;
    o->sampling.presence_penalty = 0.4f;
    o->sampling.frequency_penalty = 0.5f;
    o->sampling.logit_bias = {{3, 1.0f}};
  });
  return options;
}

// All sequences of up to `length` tokens, the empty one first.
std::vector<std::vector<TokenId>> AllDrafts(uint32_t length) {
  std::vector<std::vector<TokenId>> drafts = {{}};
  for (size_t i = 0; i < drafts.size(); ++i) {
    if (drafts[i].size() == length) continue;
    for (TokenId token = 0; token < static_cast<TokenId>(kTokens); ++token) {
      drafts.push_back(drafts[i]);
      drafts.back().push_back(token);
    }
  }
  return drafts;
}

class LawTest : public ::testing::TestWithParam<Option> {
 protected:
  struct Bench : EngineBench {
    Bench() : EngineBench(16), toy(pool.get(), kTokens, kContext) {
      options.most_drafts = 8;
      metrics =
          std::make_unique<EngineMetrics>(registry.get(), options.model_name,
                                          options.kv_dtype, *pool, &drafter);
      loop = std::make_unique<DeviceLoop>(
          options, &toy, pool.get(), &clock, metrics.get(), &drafter,
          SamplingChain([this](uint64_t, uint32_t position) {
            return numbers.at(position - prompt_tokens);
          }));
    }
    std::vector<TokenId> Write(const Option& option,
                               const std::vector<TokenId>& prompt) {
      prompt_tokens = static_cast<uint32_t>(prompt.size());
      SequenceSpec spec = Spec(prompt, kLength);
      spec.sampling = option.sampling;
      spec.stop = option.stop;
      spec.stop.max_tokens = kLength;
      auto observer = std::make_shared<RecordingObserver>();
      CommitRules rules(spec.stop, options.eos_tokens, kContext);
      loop->Add(std::make_unique<LiveSequence>(SequenceId(++last_id), spec,
                                               observer, rules, pool.get(),
                                               clock.Monotonic()));
      while (loop->Step() != StepOutcome::kIdle) {
      }
      return observer->Get().tokens;
    }

    FakeForward toy;
    FixedDrafter drafter;
    std::vector<double> numbers;  // by output token
    uint32_t prompt_tokens = 0;
    std::unique_ptr<EngineMetrics> metrics;
    std::unique_ptr<DeviceLoop> loop;
    uint64_t last_id = 0;
  };
};

TEST_P(LawTest, EveryAnswerComesFromItsNumbersWhateverIsDrafted) {
  const Option& option = GetParam();
  const std::vector<TokenId> prompt = {2, 0};
  const std::vector<Path> paths = AllPaths(option, prompt, kTokens);
  double total = 0;
  for (const Path& path : paths) total += path.probability;
  ASSERT_NEAR(total, 1, 1e-12);
  Bench bench;
  size_t wrong = 0;
  for (const Path& path : paths) {
    for (const std::vector<TokenId>& draft : AllDrafts(kLength)) {
      bench.drafter.draft = draft;
      for (const double part : {0.0, 0.5, 1.0}) {
        bench.numbers.clear();
        for (const auto& [low, high] : path.intervals) {
          const double from = low + kEdge, to = high - kEdge;
          bench.numbers.push_back(from < to ? from + part * (to - from)
                                            : (low + high) / 2);
        }
        // Behind the end of the answer: never to be used.
        bench.numbers.resize(kLength, 2.0);
        wrong += bench.Write(option, prompt) != path.tokens ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0u) << "of " << paths.size() << " answers";
}

INSTANTIATE_TEST_SUITE_P(Chains, LawTest, ::testing::ValuesIn(Options()),
                         [](const auto& info) { return info.param.name; });

// Scripts a plausible draft for every sequence: a hash of its tokens.
class HashDrafter final : public Drafter {
 public:
  explicit HashDrafter(uint32_t vocabulary) : vocabulary_(vocabulary) {}
  DraftMethods methods() const override { return DraftMethods::All(); }
  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override {
    std::vector<Draft> drafts(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      uint64_t hash = requests[i].sequence.value();
      for (uint32_t k = 0; k < std::min(3u, requests[i].most); ++k) {
        hash = hash * 6364136223846793005ull + 1442695040888963407ull;
        drafts[i].tokens.push_back(
            static_cast<TokenId>((hash >> 33) % vocabulary_));
      }
    }
    return drafts;
  }
  void Forget(SequenceId) override {}

 private:
  const uint32_t vocabulary_;
};

TEST(LawStatistics, AnswersHaveTheirShareOfManySeeds) {
  constexpr uint32_t kVocabulary8 = 8;
  constexpr int kDraws = 200000;
  Option option;
  option.sampling.temperature = 2;
  option.sampling.repetition_penalty = 1.3f;
  option.sampling.frequency_penalty = 0.5f;
  option.stop.min_tokens = 1;
  const std::vector<TokenId> prompt = {3, 5};
  std::map<std::vector<TokenId>, double> expected;
  for (const Path& path : AllPaths(option, prompt, kVocabulary8)) {
    expected[path.tokens] = path.probability * kDraws;
  }
  EngineBench bench(64);
  bench.options.most_drafts = 8;
  bench.options.max_sequences = 32;
  bench.options.max_batch_tokens = 512;
  FakeForward model(bench.pool.get(), kVocabulary8, kContext);
  HashDrafter drafter(kVocabulary8);
  EngineMetrics metrics(bench.registry.get(), "m", "f16", *bench.pool,
                        &drafter);
  DeviceLoop loop(bench.options, &model, bench.pool.get(), &bench.clock,
                  &metrics, &drafter);
  std::map<std::vector<TokenId>, int> seen;
  uint32_t drafted = 0, accepted = 0;
  for (int first = 0; first < kDraws; first += 32) {
    std::vector<std::shared_ptr<RecordingObserver>> observers;
    for (int i = first; i < std::min(first + 32, kDraws); ++i) {
      SequenceSpec spec = Spec(prompt, kLength);
      spec.sampling = option.sampling;
      spec.sampling.seed = static_cast<uint64_t>(i);
      spec.stop = option.stop;
      spec.stop.max_tokens = kLength;
      observers.push_back(std::make_shared<RecordingObserver>());
      CommitRules rules(spec.stop, bench.options.eos_tokens, kContext);
      loop.Add(std::make_unique<LiveSequence>(
          SequenceId(static_cast<uint64_t>(i) + 1), spec, observers.back(),
          rules, bench.pool.get(), bench.clock.Monotonic()));
    }
    while (loop.Step() != StepOutcome::kIdle) {
    }
    for (const auto& observer : observers) {
      const auto record = observer->Get();
      ++seen[record.tokens];
      drafted += record.timings.drafted_tokens;
      accepted += record.timings.accepted_tokens;
    }
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(drafted, 2 * accepted);
  double chi_square = 0, pooled_expected = 0, pooled_seen = 0;
  int cells = 0;
  for (const auto& [tokens, count] : seen) {
    EXPECT_TRUE(expected.contains(tokens)) << "an answer of chance 0";
  }
  for (const auto& [tokens, count] : expected) {
    if (count < 5) {
      pooled_expected += count;
      pooled_seen += seen[tokens];
      continue;
    }
    chi_square += (seen[tokens] - count) * (seen[tokens] - count) / count;
    ++cells;
  }
  if (pooled_expected >= 5) {
    chi_square += (pooled_seen - pooled_expected) *
                  (pooled_seen - pooled_expected) / pooled_expected;
    ++cells;
  }
  ASSERT_GT(cells, 50);
  // Wilson and Hilferty's approximation of the 1 - 1e-6 quantile.
  const double degrees = cells - 1, z = 4.75;
  const double part = 2 / (9 * degrees);
  const double limit = degrees * std::pow(1 - part + z * std::sqrt(part), 3);
  EXPECT_LT(chi_square, limit) << cells << " cells";
}

}  // namespace
}  // namespace baton::worker
