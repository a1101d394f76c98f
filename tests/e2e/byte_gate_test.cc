// The byte gate: what the prefill/decode cluster writes equals what one
// process writes, token for token, and what it reuses is counted exactly.
//
// Cells: prompt lengths around block edges x {greedy, seeded temperature} x
// {1, 4, 8 at once} x {cold, repeated from the worker's own cache, shared
// prefix, repeated from the store after both workers restarted} x threads x
// chunk sizes. The reference is one worker without a store.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <tuple>

#include "tests/support/cluster_process.h"
#include "tests/support/token_client.h"

namespace baton {
namespace {

using testing_support::ClusterProcess;
using testing_support::CompleteAll;
using testing_support::RandomPrompt;
using testing_support::TokenAnswer;
using testing_support::TokenRequest;

constexpr uint32_t kBlock = 64;

uint32_t Reusable(uint32_t tokens) { return (tokens - 1) / kBlock * kBlock; }

struct Cell {
  uint32_t length;
  bool greedy;
  int at_once;
};

struct Gate {
  std::string name;
  std::string model;
  int threads;
  int chunk;
  std::vector<Cell> cells;
  uint32_t max_tokens;
  // Of the cluster's workers. Speculation changes no token: half of the gates
  // have it.
  std::vector<std::string> draft_flags;
};

void PrintTo(const Gate& gate, std::ostream* out) { *out << gate.name; }

std::vector<TokenRequest> Requests(const Gate& gate, const Cell& cell) {
  std::vector<TokenRequest> requests;
  for (int i = 0; i < cell.at_once; ++i) {
    TokenRequest request;
    const uint64_t seed = cell.length * 1000 + cell.at_once * 100 +
                          (cell.greedy ? 50 : 0) + static_cast<uint64_t>(i);
    request.prompt = RandomPrompt(seed, cell.length);
    request.max_tokens = gate.max_tokens;
    request.temperature = cell.greedy ? 0.0f : 0.8f;
    request.seed = seed;
    request.logprobs = true;
    request.repetition_penalty = cell.greedy ? 1.0f : 1.1f;
    requests.push_back(request);
  }
  return requests;
}

// The same first block (as far as there is one), another tail.
std::vector<TokenRequest> Branch(std::vector<TokenRequest> requests) {
  for (TokenRequest& request : requests) {
    const size_t keep = request.prompt.size() / kBlock * kBlock;
    std::vector<int32_t> tail = RandomPrompt(request.seed + 77, 9);
    request.prompt.resize(keep);
    request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
  }
  return requests;
}

class ByteGate : public testing::TestWithParam<Gate> {
 protected:
  static std::unique_ptr<ClusterProcess> Start(const Gate& gate, bool one) {
    ClusterProcess::Options options;
    options.model = gate.model;
    options.prefill = one ? 0 : 1;
    options.kvstore = !one;
    options.more = {"--threads", one ? "1" : absl::StrCat(gate.threads),
                    "--kv-memory", "512MiB",
                    absl::StrCat("--worker-flag=--max-batch-tokens=",
                                 one ? 512 : gate.chunk)};
    if (!one) {
      for (const std::string& flag : gate.draft_flags) {
        options.more.push_back("--worker-flag=" + flag);
      }
    }
    auto cluster = ClusterProcess::Start(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return cluster.ok() ? std::move(*cluster) : nullptr;
  }

  void ExpectSame(const std::vector<TokenAnswer>& expected,
                  const std::vector<TokenAnswer>& actual,
                  const std::string& what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(expected[i].Essence(), actual[i].Essence())
          << what << " request " << i;
      EXPECT_EQ(actual[i].resumes, 0u) << what;
      EXPECT_FALSE(actual[i].prefill_worker.empty()) << what;
      compared_ += actual[i].tokens.size();
    }
  }

  size_t compared_ = 0;
};

std::string Name(const Cell& cell) {
  return absl::StrCat("length ", cell.length, cell.greedy ? " greedy" : " 0.8",
                      " x", cell.at_once);
}

TEST_P(ByteGate, ClusterWritesWhatOneProcessWrites) {
  const Gate& gate = GetParam();
  std::map<int, std::vector<TokenAnswer>> expected, expected_branch;
  {
    auto one = Start(gate, /*one=*/true);
    ASSERT_NE(one, nullptr);
    for (size_t i = 0; i < gate.cells.size(); ++i) {
      const auto requests = Requests(gate, gate.cells[i]);
      const int key = static_cast<int>(i);
      expected[key] = CompleteAll(one->completions(), requests);
      expected_branch[key] = CompleteAll(one->completions(), Branch(requests));
      for (const auto& answer : expected[key]) {
        ASSERT_TRUE(answer.status.ok()) << answer.status;
        ASSERT_GT(answer.tokens.size(), 0u);
      }
    }
  }
  auto cluster = Start(gate, /*one=*/false);
  ASSERT_NE(cluster, nullptr);
  for (size_t i = 0; i < gate.cells.size(); ++i) {
    const Cell& cell = gate.cells[i];
    const int key = static_cast<int>(i);
    const auto requests = Requests(gate, cell);
    auto cold = CompleteAll(cluster->completions(), requests);
    ExpectSame(expected[key], cold, "cold " + Name(cell));
    auto warm = CompleteAll(cluster->completions(), requests);
    ExpectSame(expected[key], warm, "warm " + Name(cell));
    for (const auto& answer : warm) {
      EXPECT_EQ(answer.local, Reusable(cell.length)) << Name(cell);
      EXPECT_EQ(answer.cached_tokens, Reusable(cell.length)) << Name(cell);
      EXPECT_EQ(answer.computed + answer.local + answer.store, cell.length);
    }
    auto branch = CompleteAll(cluster->completions(), Branch(requests));
    ExpectSame(expected_branch[key], branch, "branch " + Name(cell));
    for (const auto& answer : branch) {
      EXPECT_EQ(answer.cached_tokens, cell.length / kBlock * kBlock)
          << Name(cell);
    }
  }
  for (const char* role : {"prefill", "decode"}) {
    const pid_t pid = cluster->Pid(role);
    ASSERT_GT(pid, 0);
    kill(pid, SIGKILL);
    ASSERT_TRUE(cluster->AwaitRestart(role, pid, absl::Seconds(20)));
  }
  ASSERT_TRUE(testing_support::Await(
      [&] {
        return cluster->Metric("gateway", "baton_worker_up") == 2 &&
               cluster->AwaitReady(absl::ZeroDuration());
      },
      absl::Seconds(30)));
  for (size_t i = 0; i < gate.cells.size(); ++i) {
    const Cell& cell = gate.cells[i];
    auto stored = CompleteAll(cluster->completions(), Requests(gate, cell));
    ExpectSame(expected[static_cast<int>(i)], stored, "store " + Name(cell));
    for (const auto& answer : stored) {
      EXPECT_EQ(answer.store, Reusable(cell.length)) << Name(cell);
      EXPECT_EQ(answer.local, 0u) << Name(cell);
    }
  }
  std::printf("%s: %zu tokens compared\n", gate.name.c_str(), compared_);
}

std::vector<Cell> AllCells() {
  std::vector<Cell> cells;
  for (uint32_t length : {1, 63, 64, 65, 127, 128, 129, 300}) {
    for (bool greedy : {true, false}) {
      for (int at_once : {1, 4, 8}) cells.push_back({length, greedy, at_once});
    }
  }
  return cells;
}

// Every pair of (length, sampling), (length, at once) and (sampling, at once)
// stands in some cell; with two gates, every pair with threads and chunk too.
std::vector<Cell> PairwiseCells(int which) {
  std::vector<Cell> cells;
  const std::vector<uint32_t> lengths = {1, 63, 64, 65, 127, 128, 129, 300};
  for (size_t i = 0; i < lengths.size(); ++i) {
    cells.push_back({lengths[i], (i + which) % 2 == 0, i % 2 ? 4 : 1});
  }
  cells.push_back({65, which == 0, 8});
  return cells;
}

std::vector<Gate> Gates() {
  const std::string models(BATON_MODELS_DIR);
  // Lengths that are chosen on the demo model; fixed ones on the tiny model,
  // whose random weights accept hardly anything.
  const std::vector<std::string> drafts = {"--draft-mode=ngram,mtp",
                                           "--draft-max=4"};
  std::vector<Gate> gates;
  for (int threads : {1, 2}) {
    for (int chunk : {48, 512}) {
      Gate gate{absl::StrCat("tiny_t", threads, "_c", chunk),
                models + "/tiny-qwen3-Q4_K.gguf",
                threads,
                chunk,
                AllCells(),
                24,
                {}};
      if (threads == 2) {
        gate.model = models + "/tiny-qwen3-mtp-Q4_K.gguf";
        gate.draft_flags = drafts;
        gate.draft_flags.push_back("--no-draft-adaptive");
      }
      gates.push_back(gate);
    }
  }
  gates.push_back(
      {"smollm2_t1_c512", BATON_DEMO_MODEL, 1, 512, PairwiseCells(0), 12, {}});
  gates.push_back({"smollm2_t2_c48", BATON_DEMO_MODEL, 2, 48, PairwiseCells(1),
                   12, drafts});
  gates.back().draft_flags.push_back("--mtp-model=" BATON_DEMO_MTP);
  return gates;
}

INSTANTIATE_TEST_SUITE_P(Cluster, ByteGate, testing::ValuesIn(Gates()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton
