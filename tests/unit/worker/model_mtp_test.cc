// The MTP block of a model: its rows are the same bits however they came about,
// and the model's own logits do not notice it.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/cache/block_pool.h"
#include "worker/model/forward.h"
#include "worker/model/model.h"

namespace baton::worker {
namespace {

std::unique_ptr<Model> LoadModel(const std::string& path, bool mtp,
                                 KernelForm form = BestKernelForm()) {
  Model::Options options;
  options.path = path;
  options.mtp = mtp;
  options.kernel_form = form;
  absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// A sequence of its own, with a pool and a forward pass.
class Sequence {
 public:
  Sequence(const Model& model, int threads, uint32_t blocks = 3) {
    BlockPool::Options options;
    options.block_bytes = model.layout().TargetBytes();
    options.draft_bytes = model.layout().DraftBytes();
    options.blocks = blocks;
    pool_ = *BlockPool::Create(options);
    forward_ = *model.CreateForward(pool_.get(), threads);
    blocks_ = *pool_->TryAllocate(blocks);
    for (const BlockRef& block : blocks_) {
      // Not a number, whatever is read of it.
      std::memset(block.bytes().data(), 0xff, block.bytes().size());
      std::memset(block.draft_bytes().data(), 0xff, block.draft_bytes().size());
      table_.push_back(block.index());
    }
  }

  // Writes the rows of `tokens` from `start` on, and keeps the first `kept`.
  std::vector<float> Run(std::span<const TokenId> tokens, uint32_t start,
                         uint32_t kept) {
    StepBatch batch;
    batch.sequences.push_back(
        {tokens, start, table_, static_cast<uint32_t>(tokens.size())});
    const auto logits = forward_->Run(batch);
    EXPECT_TRUE(logits.ok()) << logits.status();
    std::vector<float> copy(logits->values.begin(), logits->values.end());
    forward_->Keep(0, kept);
    return copy;
  }

  // Draft tokens from the committed `token` at `position` on.
  std::vector<TokenId> Draft(TokenId token, uint32_t position, uint32_t count) {
    std::vector<TokenId> draft;
    DraftStep last;
    DraftRow row{token, position, table_, {}};
    for (uint32_t i = 0; i < count; ++i) {
      auto step = forward_->RunDraft({&row, 1});
      EXPECT_TRUE(step.ok()) << step.status();
      last = *std::move(step);
      EXPECT_GT(last.probabilities[0], 0.0f);
      EXPECT_LE(last.probabilities[0], 1.0f);
      draft.push_back(last.tokens[0]);
      row = {last.tokens[0], position + i + 1, table_, last.hidden_row(0)};
    }
    return draft;
  }

  // The draft rows of positions [0, end) and the tail that goes with them.
  std::string DraftRows(const Model& model, uint32_t end) const {
    const auto& groups = model.layout().groups;
    const size_t strips = size_t{2} * groups[1].kv_heads;
    const size_t strip = groups[1].block_bytes / strips;
    std::string rows;
    for (uint32_t at = 0; at < end; at += 64) {
      const uint32_t count = std::min(64u, end - at);
      const auto bytes = blocks_[at / 64].draft_bytes();
      for (size_t i = 0; i < strips; ++i) {
        rows.append(reinterpret_cast<const char*>(&bytes[i * strip]),
                    strip / 64 * count);
      }
      rows.append(reinterpret_cast<const char*>(&bytes[strips * strip]),
                  groups[2].block_bytes);
    }
    return rows;
  }

 private:
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<Forward> forward_;
  std::vector<BlockRef> blocks_;
  std::vector<uint32_t> table_;
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

class MtpForwardTest : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string Path() {
    return BATON_MODELS_DIR "/tiny-" + GetParam() + ".gguf";
  }
  const std::unique_ptr<Model> model_ = LoadModel(Path(), true);
  const std::vector<TokenId> tokens_ =
      RandomTokens(150, model_->description().vocabulary, 5);
  const std::span<const TokenId> all_{tokens_};
};

TEST_P(MtpForwardTest, LogitsAreThoseOfTheModelWithoutIt) {
  const auto plain = LoadModel(Path(), false);
  EXPECT_EQ(plain->layout().Fingerprint(), model_->layout().Fingerprint());
  EXPECT_EQ(plain->layout().DraftBytes(), 0u);
  const auto expected = Sequence(*plain, 1).Run(tokens_, 0, 150);
  const auto got = Sequence(*model_, 2).Run(tokens_, 0, 150);
  ASSERT_EQ(got.size(), expected.size());
  EXPECT_EQ(
      std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
}

TEST_P(MtpForwardTest, ChunksThreadsFormsAndRefusedDraftsChangeNoBit) {
  Sequence whole(*model_, 1);
  whole.Run(tokens_, 0, 150);
  const std::string expected = whole.DraftRows(*model_, 150);
  for (const int threads : {1, 2, 3}) {
    for (const uint32_t chunk : {1u, 7u, 64u}) {
      Sequence sequence(*model_, threads);
      for (uint32_t at = 0; at < 150; at += chunk) {
        const auto part = all_.subspan(at, std::min(chunk, 150 - at));
        sequence.Run(part, at, static_cast<uint32_t>(part.size()));
      }
      EXPECT_EQ(sequence.DraftRows(*model_, 150), expected)
          << "chunks of " << chunk << ", " << threads << " threads";
    }
  }
  // Steps with drafts of which the last ones are refused, some across a
  // block's edge, and draft steps in between that leave provisional rows.
  Sequence drafting(*model_, 2);
  for (uint32_t at = 0; at < 150;) {
    drafting.Draft(tokens_[at], at, std::min(4u, 150 - at));
    const uint32_t good = std::min(1 + at % 5, 150 - at);
    std::vector<TokenId> rows(all_.begin() + at, all_.begin() + at + good);
    while (rows.size() < 5 && at + rows.size() < 192) rows.push_back(3);
    drafting.Run(rows, at, good);
    at += good;
  }
  EXPECT_EQ(drafting.DraftRows(*model_, 150), expected);
  for (int form = 0; form <= static_cast<int>(BestKernelForm()); ++form) {
    const auto other = LoadModel(Path(), true, static_cast<KernelForm>(form));
    Sequence sequence(*other, 1);
    sequence.Run(tokens_, 0, 150);
    EXPECT_EQ(sequence.DraftRows(*other, 150), expected)
        << KernelFormName(static_cast<KernelForm>(form));
  }
}

TEST_P(MtpForwardTest, ADraftIsTheSameHoweverThePromptWasRead) {
  Sequence whole(*model_, 1), parts(*model_, 3);
  whole.Run(all_.first(128), 0, 128);
  parts.Run(all_.first(1), 0, 1);
  parts.Run(all_.subspan(1, 130), 1, 127);  // the last three are refused
  const auto draft = whole.Draft(tokens_[128], 128, 5);
  EXPECT_EQ(parts.Draft(tokens_[128], 128, 5), draft);
  // It chooses from its vocabulary: odd ids (tools/tiny_model.cc).
  for (const TokenId token : draft) EXPECT_EQ(token % 2, 1);
  // Its first step writes the row that the model's own step will.
  const std::string rows = whole.DraftRows(*model_, 129);
  Sequence read(*model_, 1);
  read.Run(all_.first(129), 0, 129);
  const std::string expected = read.DraftRows(*model_, 129);
  const size_t tail = model_->layout().groups[2].block_bytes;
  EXPECT_EQ(rows.substr(0, rows.size() - tail),
            expected.substr(0, expected.size() - tail));
}

INSTANTIATE_TEST_SUITE_P(Models, MtpForwardTest,
                         ::testing::Values("llama-mtp-F16", "qwen2-mtp-Q8_0",
                                           "qwen3-mtp-Q4_K"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

absl::Status LoadWith(const std::string& path, const std::string& mtp_path,
                      bool mtp = true) {
  Model::Options options;
  options.path = path;
  options.mtp = mtp;
  options.mtp_path = mtp_path;
  return Model::Load(options).status();
}

TEST(MtpHeadTest, AHeadBesideTheModelIsCheckedAgainstIt) {
  EXPECT_TRUE(LoadWith(BATON_DEMO_MODEL, BATON_DEMO_MTP).ok());
  const std::string tiny = BATON_MODELS_DIR "/tiny-llama-F16.gguf";
  const absl::Status other = LoadWith(tiny, BATON_DEMO_MTP);
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(other.message().find("SHA-256"), std::string::npos) << other;
  EXPECT_NE(other.message().find(BATON_DEMO_MTP), std::string::npos) << other;
  const absl::Status family =
      LoadWith(BATON_MODELS_DIR "/tiny-qwen3-F16.gguf", BATON_DEMO_MTP);
  EXPECT_NE(family.message().find("architecture"), std::string::npos) << family;
  // A whole model is no head for another.
  EXPECT_FALSE(LoadWith(BATON_DEMO_MODEL, tiny).ok());
  EXPECT_EQ(LoadWith(BATON_DEMO_MODEL, "/nonexistent").code(),
            absl::StatusCode::kNotFound);
}

TEST(MtpHeadTest, AModelWithoutABlockCannotDraftWithIt) {
  const absl::Status status = LoadWith(BATON_DEMO_MODEL, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("no MTP block"), std::string::npos) << status;
}

// Every cut of the head's file is refused or, behind the last tensor, harmless.
TEST(MtpHeadTest, ACutFileIsRefused) {
  std::ifstream in(BATON_DEMO_MTP, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)),
                          std::istreambuf_iterator<char>());
  ASSERT_GT(bytes.size(), 100000u);
  const std::string path = testing::TempDir() + "/cut-mtp.gguf";
  for (size_t i = 1; i < 12; ++i) {
    const size_t size = i < 8 ? i * 37 : bytes.size() / 12 * i;
    std::ofstream(path, std::ios::binary) << bytes.substr(0, size);
    EXPECT_FALSE(LoadWith(BATON_DEMO_MODEL, path).ok()) << size;
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace baton::worker
