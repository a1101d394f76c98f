// How long drafts get: costs and acceptance as they are learned, the choice,
// and the whole loop on a simulated machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "services/base/draft_method.h"
#include "tests/support/manual_clock.h"
#include "worker/speculation/acceptance.h"
#include "worker/speculation/adaptive_drafter.h"
#include "worker/speculation/draft_lengths.h"
#include "worker/speculation/step_costs.h"

namespace baton::worker {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(DraftMethodsTest, NamesAreThoseOfFlagsAndRequests) {
  EXPECT_TRUE(DraftMethods::Parse("none")->empty());
  EXPECT_EQ(DraftMethods::Parse("mtp,ngram")->Names(), "ngram,mtp");
  EXPECT_EQ(DraftMethods::Parse("ngram")->Names(), "ngram");
  for (const char* wrong : {"", "mtp,", "none,mtp", "eagle", "MTP"}) {
    EXPECT_FALSE(DraftMethods::Parse(wrong).ok()) << wrong;
  }
}

TEST(StepCostsTest, KnowsWhatItSawAndGuessesLow) {
  StepCosts costs;
  EXPECT_GT(costs.Estimate(2, 100), costs.Estimate(1, 100));
  costs.Observe(1, 100, 0.010);
  EXPECT_DOUBLE_EQ(costs.Estimate(1, 100), 0.010);
  EXPECT_LT(costs.Estimate(4, 100), 0.013);
  costs.Observe(5, 100, 0.030);
  EXPECT_DOUBLE_EQ(costs.Estimate(5, 100), 0.030);
  // Between the two, but no more than the guess.
  EXPECT_LE(costs.Estimate(3, 100), 0.020);
  EXPECT_GE(costs.Estimate(3, 100), 0.010);
  // A context that was not seen costs what the nearest one did.
  EXPECT_DOUBLE_EQ(costs.Estimate(5, 100000), 0.030);
  costs.Observe(5, 100000, 0.090);
  EXPECT_DOUBLE_EQ(costs.Estimate(5, 100000), 0.090);
  EXPECT_DOUBLE_EQ(costs.Estimate(5, 100), 0.030);
}

TEST(StepCostsTest, FollowsAChangeAndForgivesAHiccup) {
  StepCosts costs;
  for (int i = 0; i < 50; ++i) costs.Observe(2, 100, 0.010);
  costs.Observe(2, 100, 5.0);
  EXPECT_LT(costs.Estimate(2, 100), 0.011);
  for (int i = 0; i < 200; ++i) costs.Observe(2, 100, 0.020);
  EXPECT_THAT(costs.Estimate(2, 100), DoubleNear(0.020, 0.001));
  costs.Observe(0, 100, 1);
  costs.Observe(1000, 100, 1);
  costs.Observe(2, 100, std::nan(""));
  EXPECT_THAT(costs.Estimate(2, 100), DoubleNear(0.020, 0.001));
}

TEST(AcceptanceTest, WhatWasNotJudgedTellsNothing) {
  // Each token is right with 0.8, given the ones before: so are the estimates,
  // though the third place is judged in two thirds of the drafts only.
  std::mt19937 random(3);
  Acceptance acceptance;
  std::vector<double> sums(3);
  const int drafts = 4000;
  for (int i = 0; i < drafts; ++i) {
    uint32_t accepted = 0;
    while (accepted < 3 && random() % 10 < 8) ++accepted;
    acceptance.Observe(3, accepted);
    if (i < drafts / 2) continue;
    for (uint32_t place = 0; place < 3; ++place) {
      sums[place] += acceptance.Chance(place) / (drafts / 2.0);
    }
  }
  for (const double mean : sums) EXPECT_THAT(mean, DoubleNear(0.8, 0.03));
}

TEST(AcceptanceTest, StartsFromThePriorAndForgets) {
  Acceptance usual, own;
  for (int i = 0; i < 300; ++i) usual.Observe(2, 0);
  EXPECT_LT(own.Chance(0, usual), 0.15);
  for (int i = 0; i < 10; ++i) own.Observe(2, 2);
  EXPECT_GT(own.Chance(0, usual), 0.6);
  for (int i = 0; i < 100; ++i) own.Observe(2, 0);
  EXPECT_LT(own.Chance(0, usual), 0.1);
}

DraftCandidate Candidate(uint32_t most, double chance, bool costs_steps) {
  return {most, costs_steps, std::vector<double>(most, chance)};
}

TEST(DraftLengthsTest, LongForGoodDraftsNoneForBadOnes) {
  DraftCosts costs;
  costs.step = [](uint32_t rows) { return 1 + 0.15 * (rows - 1); };
  costs.draft_step = 0.1;
  const std::vector<DraftCandidate> good = {Candidate(8, 0.95, true)};
  EXPECT_EQ(ChooseDraftLengths(good, 1, costs)[0], 8u);
  const std::vector<DraftCandidate> bad = {Candidate(8, 0.1, true)};
  EXPECT_EQ(ChooseDraftLengths(bad, 1, costs)[0], 0u);
  // What is there already pays where a draft step would not.
  const std::vector<DraftCandidate> fair = {Candidate(8, 0.2, true)};
  EXPECT_EQ(ChooseDraftLengths(fair, 1, costs)[0], 0u);
  const std::vector<DraftCandidate> free = {Candidate(8, 0.2, false)};
  EXPECT_EQ(ChooseDraftLengths(free, 1, costs)[0], 1u);
}

TEST(DraftLengthsTest, SeesGainsBehindACostlyFirstRow) {
  DraftCosts costs;
  costs.step = [](uint32_t rows) { return rows == 1 ? 1.0 : 2.0; };
  const std::vector<DraftCandidate> one = {Candidate(8, 0.9, false)};
  EXPECT_EQ(ChooseDraftLengths(one, 1, costs)[0], 8u);
}

TEST(DraftLengthsTest, RowsGoToThoseWhoUseThem) {
  DraftCosts costs;
  costs.step = [](uint32_t rows) { return 1 + 0.2 * (rows - 1); };
  costs.draft_step = 0.05;
  const std::vector<DraftCandidate> mixed = {
      Candidate(4, 0.95, true), Candidate(4, 0.05, true), Candidate(0, 0, true),
      Candidate(4, 0.9, false)};
  const auto lengths = ChooseDraftLengths(mixed, 4, costs);
  EXPECT_GE(lengths[0], 2u);
  EXPECT_EQ(lengths[1], 0u);
  EXPECT_EQ(lengths[2], 0u);
  EXPECT_GE(lengths[3], 2u);
}

// A machine whose steps and acceptance are given: drafts of zeros, of which
// each is right with the chance of the moment.
class Simulation {
 public:
  struct Machine {
    std::vector<double> step;  // seconds, by rows - 1
    double draft_step = 0.001;
    double acceptance = 0.5;
  };
  explicit Simulation(Machine machine)
      : machine_(std::move(machine)),
        drafter_(nullptr, std::make_unique<Block>(this), &clock_) {}

  // Tokens a second over `steps` steps of one sequence.
  double Run(int steps, uint32_t most = 8) {
    const absl::Duration start = clock_.Monotonic();
    uint64_t tokens = 0;
    for (int i = 0; i < steps; ++i) {
      DraftRequest request;
      request.sequence = SequenceId(1);
      request.tokens = tokens_;
      request.most = most;
      request.primed = true;
      const std::vector<Draft> drafts = drafter_.Propose({&request, 1});
      const auto drafted = static_cast<uint32_t>(drafts[0].tokens.size());
      const absl::Duration duration = absl::Seconds(machine_.step[drafted]);
      clock_.Advance(duration);
      drafter_.OnStep(1 + drafted, 100, duration);
      uint32_t accepted = 0;
      while (accepted < drafted && Right()) ++accepted;
      if (drafted > 0) {
        drafter_.OnVerified(SequenceId(1), drafts[0], accepted);
      }
      tokens += 1 + accepted;
    }
    return static_cast<double>(tokens) /
           absl::ToDoubleSeconds(clock_.Monotonic() - start);
  }
  // What the best fixed length gives.
  double Best(uint32_t most = 8) const {
    double best = 0, tokens = 1, chance = 1;
    for (uint32_t k = 0; k <= most; ++k) {
      best =
          std::max(best, tokens / (machine_.step[k] + k * machine_.draft_step));
      chance *= machine_.acceptance;
      tokens += chance;
    }
    return best;
  }
  void SetAcceptance(double acceptance) { machine_.acceptance = acceptance; }

 private:
  class Block final : public Drafter {
   public:
    explicit Block(Simulation* simulation) : simulation_(simulation) {}
    DraftMethods methods() const override {
      return *DraftMethods::Parse("mtp");
    }
    std::vector<Draft> Propose(
        std::span<const DraftRequest> requests) override {
      simulation_->clock_.Advance(
          absl::Seconds(simulation_->machine_.draft_step * requests[0].most));
      return {{std::vector<TokenId>(requests[0].most), DraftMethod::kMtp}};
    }
    void Forget(SequenceId) override {}

   private:
    Simulation* const simulation_;
  };

  bool Right() {
    return static_cast<double>(random_()) <
           machine_.acceptance * static_cast<double>(random_.max());
  }

  Machine machine_;
  ManualClock clock_;
  AdaptiveDrafter drafter_;
  const std::vector<TokenId> tokens_ = {1};
  std::mt19937 random_{5};
};

std::vector<double> Steps(double first, double more, double every) {
  std::vector<double> steps = {first};
  for (int i = 0; i < 8; ++i) steps.push_back(first * (more + every * i));
  return steps;
}

TEST(AdaptiveDrafterTest, ComesNearTheBestFixedLengthOnEveryMachine) {
  for (const double acceptance : {0.02, 0.3, 0.5, 0.8, 0.95}) {
    for (const auto& step : {Steps(0.010, 1.05, 0.05), Steps(0.010, 1.3, 0.02),
                             Steps(0.010, 1.2, 0.2), Steps(0.010, 2.0, 1.0)}) {
      Simulation simulation({step, 0.001, acceptance});
      simulation.Run(300);
      EXPECT_GT(simulation.Run(3000), 0.96 * simulation.Best())
          << acceptance << " " << step[1];
    }
  }
}

TEST(AdaptiveDrafterTest, GivesUpAndComesBack) {
  Simulation simulation({Steps(0.010, 1.3, 0.05), 0.001, 0.02});
  simulation.Run(300);
  // Drafts cost almost nothing where none is accepted.
  EXPECT_GT(simulation.Run(2000), 0.98 * 100);
  simulation.SetAcceptance(0.9);
  simulation.Run(1500);
  EXPECT_GT(simulation.Run(2000), 0.95 * simulation.Best());
}

}  // namespace
}  // namespace baton::worker
