#include <ostream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/planner.h"

namespace baton::worker {

void PrintTo(const StepPlan::Rows& rows, std::ostream* out) {
  *out << "{" << rows.sequence << ", " << rows.rows << ", " << rows.logit_rows
       << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Rows = StepPlan::Rows;

// All blocks of a sequence are its own unless the test says otherwise.
SequenceSnapshot Running(uint32_t tokens, uint32_t computed, uint32_t blocks) {
  return {true, tokens, computed, blocks, blocks};
}
SequenceSnapshot Waiting(uint32_t tokens, uint32_t computed = 0,
                         uint32_t blocks = 0) {
  return {false, tokens, computed, blocks, blocks};
}

PlannerSnapshot Snapshot(std::vector<SequenceSnapshot> sequences,
                         uint32_t available = 100) {
  PlannerSnapshot snapshot;
  snapshot.sequences = std::move(sequences);
  snapshot.available_blocks = available;
  snapshot.total_blocks = 100;
  snapshot.block_tokens = 4;
  snapshot.max_batch_tokens = 32;
  snapshot.max_sequences = 4;
  snapshot.max_prefill_tokens_beside_decode = 8;
  return snapshot;
}

TEST(PlannerTest, NothingToDoGivesAnEmptyPlan) {
  const StepPlan plan = PlanStep(Snapshot({}));
  EXPECT_THAT(plan.rows, IsEmpty());
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(PlannerTest, AdmitsAndStartsInTheSameStep) {
  const StepPlan plan = PlanStep(Snapshot({Waiting(10), Waiting(5)}));
  EXPECT_THAT(plan.admit, ElementsAre(0, 1));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 10, 1}, Rows{1, 5, 1}));
}

TEST(PlannerTest, AChunkMayEndAnywhereAndOnlyTheLastHasLogits) {
  PlannerSnapshot snapshot = Snapshot({Running(50, 3, 1)});
  EXPECT_THAT(PlanStep(snapshot).rows, ElementsAre(Rows{0, 32, 0}));
  snapshot.sequences = {Running(50, 35, 9)};
  EXPECT_THAT(PlanStep(snapshot).rows, ElementsAre(Rows{0, 15, 1}));
}

TEST(PlannerTest, DecodeRowsComeFirstAndLimitPromptRows) {
  const StepPlan plan = PlanStep(
      Snapshot({Running(60, 10, 3), Running(9, 8, 3), Running(40, 39, 10)}));
  EXPECT_THAT(plan.rows,
              ElementsAre(Rows{1, 1, 1}, Rows{2, 1, 1}, Rows{0, 8, 0}));
}

SequenceSnapshot Drafting(SequenceSnapshot sequence, uint32_t drafts) {
  sequence.drafts = drafts;
  return sequence;
}

TEST(PlannerTest, DraftsFollowTheirRowAndAllHaveLogits) {
  const StepPlan plan = PlanStep(Snapshot(
      {Drafting(Running(9, 8, 3), 3), Running(5, 4, 2), Running(20, 0, 0)}));
  EXPECT_THAT(plan.rows,
              ElementsAre(Rows{0, 4, 4}, Rows{1, 1, 1}, Rows{2, 8, 0}));
}

TEST(PlannerTest, DraftsComeAfterEveryRunningSequencesRow) {
  PlannerSnapshot snapshot =
      Snapshot({Drafting(Running(9, 8, 3), 8), Drafting(Running(5, 4, 2), 8)});
  snapshot.max_batch_tokens = 5;
  EXPECT_THAT(PlanStep(snapshot).rows,
              ElementsAre(Rows{0, 4, 4}, Rows{1, 1, 1}));
}

TEST(PlannerTest, NobodyGivesUpBlocksForADraft) {
  // Room for the row at 8 and three drafts; no block is free.
  const StepPlan plan = PlanStep(Snapshot(
      {Drafting(Running(9, 8, 3), 8), Running(5, 4, 2)}, /*available=*/0));
  EXPECT_THAT(plan.preempt, IsEmpty());
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 4, 4}, Rows{1, 1, 1}));
}

TEST(PlannerTest, AWaitingSequenceDraftsInTheStepThatAdmitsIt) {
  const StepPlan plan =
      PlanStep(Snapshot({Drafting(Waiting(9, 8, 2), 3), Waiting(9, 8, 2)}));
  EXPECT_THAT(plan.admit, ElementsAre(0, 1));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 4, 4}, Rows{1, 1, 1}));
}

TEST(PlannerTest, PromptsShareTheRowsInArrivalOrder) {
  const StepPlan plan = PlanStep(Snapshot(
      {Running(25, 20, 5), Running(9, 8, 3), Running(30, 0, 0), Waiting(9)}));
  EXPECT_THAT(plan.rows,
              ElementsAre(Rows{1, 1, 1}, Rows{0, 5, 1}, Rows{2, 3, 0}));
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(PlannerTest, ANewcomerThatOnlyDecodesNeedsNoPromptRows) {
  const StepPlan plan = PlanStep(
      Snapshot({Running(60, 10, 3), Running(9, 8, 3), Waiting(13, 12, 3)}));
  EXPECT_THAT(plan.admit, ElementsAre(2));
  EXPECT_THAT(plan.rows,
              ElementsAre(Rows{1, 1, 1}, Rows{2, 1, 1}, Rows{0, 8, 0}));
}

TEST(PlannerTest, AdmissionEndsAtTheSlots) {
  PlannerSnapshot snapshot =
      Snapshot({Running(9, 8, 3), Waiting(2), Waiting(2), Waiting(2)});
  snapshot.max_sequences = 3;
  EXPECT_THAT(PlanStep(snapshot).admit, ElementsAre(1, 2));
}

TEST(PlannerTest, AdmissionLeavesRoomForTheTokensOfAllAndABlockEach) {
  // The runner has 2 of 5 + 1 blocks; the newcomer needs 2 + 1.
  EXPECT_THAT(PlanStep(Snapshot({Running(20, 8, 2), Waiting(8)}, 6)).admit,
              IsEmpty());
  EXPECT_THAT(PlanStep(Snapshot({Running(20, 8, 2), Waiting(8)}, 7)).admit,
              ElementsAre(1));
}

TEST(PlannerTest, NobodyOvertakesInTheQueue) {
  EXPECT_THAT(
      PlanStep(Snapshot({Running(20, 8, 2), Waiting(40), Waiting(1)}, 8)).admit,
      IsEmpty());
}

TEST(PlannerTest, APromptThatFillsThePoolIsAdmittedAlone) {
  PlannerSnapshot snapshot = Snapshot({Waiting(12), Waiting(1)}, 3);
  snapshot.total_blocks = 3;
  const StepPlan plan = PlanStep(snapshot);
  EXPECT_THAT(plan.admit, ElementsAre(0));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 12, 1}));
}

TEST(PlannerTest, TheYoungestGivesUpItsBlocksWhenTheyRunOut) {
  const StepPlan plan = PlanStep(Snapshot(
      {Running(9, 8, 2), Running(9, 8, 3), Running(9, 8, 3), Waiting(1)}, 0));
  EXPECT_THAT(plan.preempt, ElementsAre(2));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 1, 1}, Rows{1, 1, 1}));
  EXPECT_THAT(plan.admit, IsEmpty());
}

TEST(PlannerTest, TheYoungestWithoutRoomWaitsWithWhatItHas) {
  const StepPlan plan =
      PlanStep(Snapshot({Running(7, 6, 2), Running(9, 8, 2)}, 0));
  EXPECT_THAT(plan.preempt, IsEmpty());
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 1, 1}));
}

TEST(PlannerTest, ARowPlannedForTheVictimIsTakenBack) {
  // The older one's prompt needs the block that the younger one's decode row
  // took just before.
  const StepPlan plan =
      PlanStep(Snapshot({Running(12, 4, 1), Running(9, 8, 2)}, 1));
  EXPECT_THAT(plan.preempt, ElementsAre(1));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 8, 1}));
}

TEST(PlannerTest, WaitingSequencesGiveUpRestoredBlocksFirst) {
  const StepPlan plan = PlanStep(Snapshot(
      {Running(9, 8, 2), Running(9, 8, 3), Waiting(9, 8, 2), Waiting(5)}, 0));
  EXPECT_THAT(plan.preempt, ElementsAre(2));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 1, 1}, Rows{1, 1, 1}));
}

TEST(PlannerTest, AChunkShrinksToTheRoomThereIs) {
  const StepPlan plan = PlanStep(Snapshot({Running(30, 2, 1)}, 2));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 10, 0}));
}

TEST(PlannerTest, SharedBlocksCountAsNoGain) {
  PlannerSnapshot snapshot =
      Snapshot({Running(9, 8, 2), Running(9, 8, 3), Running(9, 8, 3)}, 0);
  snapshot.sequences[2].releasable_blocks = 0;
  const StepPlan plan = PlanStep(snapshot);
  EXPECT_THAT(plan.preempt, ElementsAre(2, 1));
  EXPECT_THAT(plan.rows, ElementsAre(Rows{0, 1, 1}));
}

TEST(PlannerTest, WhoOutgrowsThePoolFails) {
  PlannerSnapshot snapshot =
      Snapshot({Running(13, 12, 3), Running(3, 2, 1)}, 0);
  snapshot.total_blocks = 3;
  const StepPlan plan = PlanStep(snapshot);
  EXPECT_THAT(plan.fail, ElementsAre(0));
  EXPECT_THAT(plan.preempt, IsEmpty());
  EXPECT_THAT(plan.rows, ElementsAre(Rows{1, 1, 1}));
}

TEST(PlannerTest, AHeadOfTheQueueTakesBlocksThatYoungerOnesWaitWith) {
  PlannerSnapshot snapshot = Snapshot({Waiting(20), Waiting(16, 12, 4)}, 4);
  snapshot.total_blocks = 8;
  const StepPlan plan = PlanStep(snapshot);
  EXPECT_THAT(plan.preempt, ElementsAre(1));
  EXPECT_THAT(plan.admit, ElementsAre(0));
}

}  // namespace
}  // namespace baton::worker
