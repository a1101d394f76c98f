// The MTP drafter over a forward pass that drafts by rule, and drafters asked
// in turn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "worker/speculation/adaptive_drafter.h"
#include "worker/speculation/drafter_chain.h"
#include "worker/speculation/mtp_drafter.h"
#include "worker/speculation/ngram_drafter.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Proposes token + 1; less and less likely. The hidden row is (position).
class CountingForward final : public Forward {
 public:
  bool drafts() const override { return true; }
  absl::StatusOr<StepLogits> Run(const StepBatch&) override {
    return absl::InternalError("not here");
  }
  absl::StatusOr<DraftStep> RunDraft(std::span<const DraftRow> rows) override {
    ++steps;
    if (steps == failing_step) return absl::InternalError("asked to fail");
    DraftStep step;
    for (const DraftRow& row : rows) {
      // A first step starts from the block's row, a later one from the step
      // before: the hidden row of the position before it.
      if (row.hidden.empty()) {
        ++firsts;
      } else {
        EXPECT_EQ(row.hidden[0], static_cast<float>(row.position - 1));
      }
      EXPECT_LT(row.position / 4, row.block_table.size());
      step.tokens.push_back(row.token + 1);
      step.probabilities.push_back(1.0f / static_cast<float>(row.token));
      step.hidden.push_back(static_cast<float>(row.position));
    }
    return step;
  }
  uint32_t vocabulary() const override { return 100; }
  uint32_t context_length() const override { return 100; }

  int steps = 0, firsts = 0, failing_step = -1;
};

class MtpDrafterTest : public ::testing::Test {
 protected:
  DraftRequest Request(const std::vector<TokenId>& tokens, uint32_t most) {
    DraftRequest request;
    request.sequence = SequenceId(1);
    request.tokens = tokens;
    request.most = most;
    request.block_table = table_;
    request.primed = true;
    return request;
  }
  MtpDrafter Drafter(float least_probability = 0) {
    return MtpDrafter({least_probability, /*block_tokens=*/4}, &forward_);
  }

  CountingForward forward_;
  const std::vector<uint32_t> table_ = {7, 8};
  const std::vector<TokenId> two_ = {1, 2};
  const std::vector<TokenId> seven_ = {1, 1, 1, 1, 1, 1, 5};
};

TEST_F(MtpDrafterTest, ChainsStepsForAllSequencesTogether) {
  MtpDrafter drafter = Drafter();
  const std::vector<DraftRequest> requests = {Request(two_, 3),
                                              Request(two_, 1)};
  const auto drafts = drafter.Propose(requests);
  EXPECT_THAT(drafts[0].tokens, ElementsAre(3, 4, 5));
  EXPECT_THAT(drafts[1].tokens, ElementsAre(3));
  EXPECT_EQ(drafts[0].method, DraftMethod::kMtp);
  EXPECT_EQ(forward_.steps, 3);
  EXPECT_EQ(forward_.firsts, 2);
}

TEST_F(MtpDrafterTest, EndsWhereTheBlocksEnd) {
  MtpDrafter drafter = Drafter();
  // Rows at 6 and 7 only.
  const DraftRequest request = Request(seven_, 5);
  EXPECT_THAT(drafter.Propose({&request, 1})[0].tokens, ElementsAre(6, 7));
  const std::vector<TokenId> nine(9, 1);
  const DraftRequest outside = Request(nine, 5);
  EXPECT_THAT(drafter.Propose({&outside, 1})[0].tokens, IsEmpty());
}

TEST_F(MtpDrafterTest, LeavesOutWhatIsUnlikely) {
  MtpDrafter drafter = Drafter(0.3f);
  const DraftRequest request = Request(two_, 8);
  EXPECT_THAT(drafter.Propose({&request, 1})[0].tokens, ElementsAre(3, 4));
}

TEST_F(MtpDrafterTest, NothingForTheUnprimedAndTheUnwilling) {
  MtpDrafter drafter = Drafter();
  DraftRequest unprimed = Request(two_, 3);
  unprimed.primed = false;
  DraftRequest unwilling = Request(two_, 3);
  unwilling.allowed = *DraftMethods::Parse("ngram");
  const std::vector<DraftRequest> requests = {unprimed, unwilling};
  for (const Draft& draft : drafter.Propose(requests)) {
    EXPECT_THAT(draft.tokens, IsEmpty());
  }
  EXPECT_EQ(forward_.steps, 0);
}

TEST_F(MtpDrafterTest, AFailedStepEndsTheDraftBeforeIt) {
  forward_.failing_step = 3;
  MtpDrafter drafter = Drafter();
  const DraftRequest request = Request(two_, 8);
  EXPECT_THAT(drafter.Propose({&request, 1})[0].tokens, ElementsAre(3, 4));
}

TEST_F(MtpDrafterTest, IsAskedWhereTheTextItselfSaysNothing) {
  std::vector<std::unique_ptr<worker::Drafter>> drafters;
  drafters.push_back(std::make_unique<NgramDrafter>());
  drafters.push_back(
      std::make_unique<MtpDrafter>(MtpDrafter::Options{0, 4}, &forward_));
  DrafterChain chain(std::move(drafters));
  EXPECT_EQ(chain.methods(), DraftMethods::All());
  EXPECT_TRUE(chain.writes_rows());
  const std::vector<TokenId> repeated = {5, 6, 7, 8, 5, 6, 7};
  DraftRequest first = Request(repeated, 2);
  DraftRequest second = Request(two_, 2);
  second.sequence = SequenceId(2);
  const std::vector<DraftRequest> requests = {first, second};
  const auto drafts = chain.Propose(requests);
  EXPECT_EQ(drafts[0].method, DraftMethod::kNgram);
  EXPECT_THAT(drafts[0].tokens, ElementsAre(8, 5));
  EXPECT_EQ(drafts[1].method, DraftMethod::kMtp);
  EXPECT_THAT(drafts[1].tokens, ElementsAre(3, 4));
}

}  // namespace
}  // namespace baton::worker
