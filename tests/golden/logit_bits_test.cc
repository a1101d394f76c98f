// The logits of the tiny models are these bits, on every machine and whatever
// instruction set ggml was compiled for (`./dev check variant` runs this with
// another): kernels of one revision give one result, which is what a numerics
// id promises.
//
// A test that fails after a change of a kernel asks for two things: a higher
// kKernelRevision, and the digests that it prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kvstore/block/block_key.h"
#include "worker/cache/block_pool.h"
#include "worker/kernels/kernel_form.h"
#include "worker/model/model.h"

namespace baton::worker {
namespace {

constexpr int kRevision = 5;  // of kKernelRevision, to which the digests belong
constexpr size_t kTokens = 70;  // over a block's edge

struct Case {
  const char* model;
  const char* digest;  // of the logits' bytes, first 16 digits
};
constexpr Case kCases[] = {
    {"llama-F32", "084cd10ee4e29ad3"},  {"llama-F16", "0bcb2c241373b069"},
    {"llama-Q4_K", "6d9e828c80729acb"}, {"llama-Q6_K", "af3cfd2d39aa0fc4"},
    {"llama-Q8_0", "7fd550bad43562d6"}, {"qwen2-F32", "41352b3fd4f797bc"},
    {"qwen2-F16", "11bdf667b042b5ec"},  {"qwen2-Q4_K", "832062ee7b7c0d38"},
    {"qwen2-Q6_K", "2b8c763486439366"}, {"qwen2-Q8_0", "675ef60b2410f6bd"},
    {"qwen3-F32", "3db1fa02192cada0"},  {"qwen3-F16", "173c5cfeb72327f8"},
    {"qwen3-Q4_K", "0202938a6379bcbe"}, {"qwen3-Q6_K", "607256589b41ce0d"},
    {"qwen3-Q8_0", "754d1d4ed13529f6"},
};

// The digest of all logits of a prompt in one step.
std::string Digest(const std::string& path, KernelForm form) {
  Model::Options options;
  options.path = path;
  options.kernel_form = form;
  const auto model = Model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return "";
  const auto pool =
      *BlockPool::Create({(*model)->layout().groups[0].block_bytes, 2, 64});
  const auto forward = *(*model)->CreateForward(pool.get(), 1);
  const auto blocks = *pool->TryAllocate(2);
  const std::vector<uint32_t> table = {blocks[0].index(), blocks[1].index()};
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < kTokens; ++i) {
    tokens.push_back(
        static_cast<TokenId>(i * 7919 % (*model)->description().vocabulary));
  }
  const auto logits =
      forward->Run(StepBatch{{{tokens, 0, table, uint32_t{kTokens}}}});
  EXPECT_TRUE(logits.ok()) << logits.status();
  if (!logits.ok()) return "";
  const absl::string_view bytes(
      reinterpret_cast<const char*>(logits->values.data()),
      logits->values.size_bytes());
  return kvstore::Sha256(bytes).Hex().substr(0, 16);
}

class LogitBits : public testing::TestWithParam<Case> {};

TEST_P(LogitBits, AreThoseOfTheRevision) {
  ASSERT_EQ(kRevision, kKernelRevision);
  const std::string path =
      std::string(BATON_MODELS_DIR) + "/tiny-" + GetParam().model + ".gguf";
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    EXPECT_EQ(Digest(path, static_cast<KernelForm>(form)), GetParam().digest)
        << KernelFormName(static_cast<KernelForm>(form));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LogitBits, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           std::string name = info.param.model;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace baton::worker
