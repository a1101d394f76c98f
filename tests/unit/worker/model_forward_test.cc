// Strict numerics of the whole model: the logits of a position are the same
// bits whatever the chunks, the neighbours and the threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/cache/block_pool.h"
#include "worker/model/forward.h"
#include "worker/model/model.h"

namespace baton::worker {
namespace {

std::unique_ptr<Model> LoadModel(const std::string& path,
                                 KvType kv_type = KvType::kF16) {
  Model::Options options;
  options.path = path;
  options.kv_type = kv_type;
  absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// A model with a pool and a forward pass of its own.
class Runner {
 public:
  Runner(const Model& model, int threads) {
    BlockPool::Options options;
    options.block_bytes = model.layout().groups[0].block_bytes;
    options.blocks = 16;
    pool_ = *BlockPool::Create(options);
    forward_ = *model.CreateForward(pool_.get(), threads);
  }

  std::vector<uint32_t> TakeBlocks(uint32_t count) {
    std::vector<uint32_t> table;
    const auto blocks = pool_->TryAllocate(count);
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    for (const BlockRef& block : *blocks) {
      std::memset(block.bytes().data(), 0xff, block.bytes().size());
      held_.push_back(block);
      table.push_back(block.index());
    }
    return table;
  }

  // Logits of all rows that ask for them.
  std::vector<float> Run(const StepBatch& batch) {
    const auto logits = forward_->Run(batch);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return {logits->values.begin(), logits->values.end()};
  }

  // Logits of every position of `tokens`, in chunks of `chunk` rows.
  std::vector<float> RunChunks(std::span<const TokenId> tokens,
                               uint32_t chunk) {
    const auto table = TakeBlocks((tokens.size() + 63) / 64);
    std::vector<float> all;
    for (uint32_t done = 0; done < tokens.size(); done += chunk) {
      const uint32_t rows = std::min<uint32_t>(
          chunk, static_cast<uint32_t>(tokens.size()) - done);
      StepBatch batch;
      batch.sequences.push_back(
          {tokens.subspan(done, rows), done, table, rows});
      const auto logits = Run(batch);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    held_.clear();
    return all;
  }

 private:
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Forward> forward_;
  std::vector<BlockRef> held_;
};

std::vector<TokenId> RandomTokens(size_t count, uint32_t vocabulary,
                                  uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % vocabulary);
  }
  return tokens;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct Case {
  std::string name;
  KvType kv_type = KvType::kF16;
};

class StrictForwardTest : public ::testing::TestWithParam<Case> {
 protected:
  static bool IsDemo() { return GetParam().name == "demo"; }
  static std::string Path() {
    return IsDemo() ? BATON_DEMO_MODEL
                    : BATON_MODELS_DIR "/tiny-" + GetParam().name + ".gguf";
  }
  static std::unique_ptr<Model> Load() {
    return LoadModel(Path(), GetParam().kv_type);
  }
};

TEST_P(StrictForwardTest, ChunksAndThreadsChangeNoBit) {
  const auto model = Load();
  ASSERT_NE(model, nullptr);
  const auto tokens = RandomTokens(70, model->description().vocabulary, 1);
  const auto expected = Runner(*model, 1).RunChunks(tokens, 1);
  ASSERT_TRUE(std::all_of(expected.begin(), expected.end(),
                          [](float x) { return std::isfinite(x); }));
  // ggml's threads spin at some 700 barriers a step of the demo model: more
  // threads than cores take minutes there, and the tiny models cover them.
  const bool demo = IsDemo();
  for (int threads = 1; threads <= (demo ? 2 : 3); ++threads) {
    Runner runner(*model, threads);
    for (const uint32_t chunk : {demo ? 37u : 7u, 64u, 70u}) {
      EXPECT_TRUE(SameBits(runner.RunChunks(tokens, chunk), expected))
          << "chunks of " << chunk << ", " << threads << " threads";
    }
  }
}

TEST_P(StrictForwardTest, InstructionSetsChangeNoBit) {
  Model::Options options;
  options.path = Path();
  options.kv_type = GetParam().kv_type;
  options.kernel_form = KernelForm::kScalar;
  const auto scalar = *Model::Load(options);
  const auto tokens =
      RandomTokens(IsDemo() ? 9 : 70, scalar->description().vocabulary, 4);
  const auto expected = Runner(*scalar, 1).RunChunks(tokens, 70);
  for (int form = 1; form <= static_cast<int>(BestKernelForm()); ++form) {
    options.kernel_form = static_cast<KernelForm>(form);
    const auto model = *Model::Load(options);
    EXPECT_TRUE(SameBits(Runner(*model, 1).RunChunks(tokens, 70), expected))
        << KernelFormName(options.kernel_form);
  }
}

TEST_P(StrictForwardTest, NeighboursAndOmittedRowsChangeNoBit) {
  const auto model = Load();
  ASSERT_NE(model, nullptr);
  const uint32_t vocabulary = model->description().vocabulary;
  const auto a = RandomTokens(66, vocabulary, 2);
  const auto b = RandomTokens(5, vocabulary, 3);
  Runner alone(*model, 1);
  const auto expected_a = alone.RunChunks(a, 66);
  const auto expected_b = alone.RunChunks(b, 5);
  const auto row = [&](const std::vector<float>& all, uint32_t i) {
    return std::span<const float>(all).subspan(size_t{i} * vocabulary,
                                               vocabulary);
  };
  Runner runner(*model, 2);
  const auto blocks_a = runner.TakeBlocks(2);
  const auto blocks_b = runner.TakeBlocks(1);
  const std::span<const TokenId> all_a(a), all_b(b);
  // An inner chunk without logits beside one row of b with its logits.
  StepBatch batch;
  batch.sequences = {{all_a.subspan(0, 40), 0, blocks_a, 0},
                     {all_b.subspan(0, 1), 0, blocks_b, 1}};
  EXPECT_TRUE(SameBits(runner.Run(batch), row(expected_b, 0)));
  // A step without any logits.
  batch.sequences = {{all_b.subspan(1, 2), 1, blocks_b, 0}};
  EXPECT_TRUE(runner.Run(batch).empty());
  // Both end; b comes first and wants two rows.
  batch.sequences = {{all_b.subspan(3, 2), 3, blocks_b, 2},
                     {all_a.subspan(40, 26), 40, blocks_a, 1}};
  const auto last = runner.Run(batch);
  ASSERT_EQ(last.size(), size_t{3} * vocabulary);
  EXPECT_TRUE(SameBits(row(last, 0), row(expected_b, 3)));
  EXPECT_TRUE(SameBits(row(last, 1), row(expected_b, 4)));
  EXPECT_TRUE(SameBits(row(last, 2), row(expected_a, 65)));
  // The same shape again runs the same graph with other inputs.
  const auto again = runner.Run(batch);
  EXPECT_TRUE(SameBits(again, last));
}

INSTANTIATE_TEST_SUITE_P(
    Models, StrictForwardTest,
    ::testing::Values(Case{"demo"}, Case{"llama-F32"}, Case{"llama-F16"},
                      Case{"llama-Q4_K"}, Case{"qwen2-Q8_0"},
                      Case{"qwen2-Q6_K"}, Case{"qwen3-F16"}, Case{"qwen3-Q4_K"},
                      Case{"llama-F32", KvType::kF32},
                      Case{"qwen3-Q4_K", KvType::kF32}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name + "_kv_" + KvTypeName(info.param.kv_type);
    });

// "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n
// <|im_start|>assistant\n" is answered with "The capital of France is Paris."
TEST(DemoModel, AnswersAQuestion) {
  const auto model = LoadModel(BATON_DEMO_MODEL);
  ASSERT_NE(model, nullptr);
  std::vector<TokenId> tokens = {1,    4093, 198, 1780, 314, 260, 3575, 282,
                                 4649, 47,   2,   198,  1,   520, 9531, 198};
  Runner runner(*model, 1);
  const auto blocks = runner.TakeBlocks(1);
  const auto words = model->header().StringArray("tokenizer.ggml.tokens");
  std::string answer;
  std::span<const TokenId> next = tokens;
  uint32_t position = 0;
  TokenId token = 0;
  for (int i = 0; i < 9; ++i) {
    StepBatch batch;
    batch.sequences = {{next, position, blocks, 1}};
    const auto logits = runner.Run(batch);
    position += static_cast<uint32_t>(next.size());
    token = static_cast<TokenId>(
        std::max_element(logits.begin(), logits.end()) - logits.begin());
    next = std::span<const TokenId>(&token, 1);
    answer += (*words)[token];
  }
  // "Ġ" is the vocabulary's sign for a space.
  EXPECT_EQ(answer, "TheĠcapitalĠofĠFranceĠisĠParis.<|im_end|>Ċ");
}

}  // namespace
}  // namespace baton::worker
