// The planner's promises over random snapshots, and whole random workloads
// run by it to their end.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "services/base/checked_math.h"
#include "worker/engine/planner.h"

namespace baton::worker {
namespace {

constexpr uint32_t kBlockTokens = 4;

uint32_t BlocksFor(uint32_t tokens) {
  return static_cast<uint32_t>(DivideUp(tokens, kBlockTokens));
}

void CheckPlan(const PlannerSnapshot& s, const StepPlan& plan) {
  std::set<size_t> preempted(plan.preempt.begin(), plan.preempt.end());
  std::set<size_t> admitted(plan.admit.begin(), plan.admit.end());
  std::set<size_t> failed(plan.fail.begin(), plan.fail.end());
  uint64_t room = s.available_blocks;
  for (size_t i : preempted) room += s.sequences[i].releasable_blocks;
  uint32_t rows = 0, decode = 0, prefill = 0;
  uint64_t taken = 0;
  std::set<size_t> seen;
  bool newcomer_decodes = false;
  for (const StepPlan::Rows& r : plan.rows) {
    const SequenceSnapshot& q = s.sequences[r.sequence];
    const uint32_t pending = q.tokens - q.computed;
    ASSERT_TRUE(seen.insert(r.sequence).second);
    ASSERT_FALSE(preempted.contains(r.sequence));
    ASSERT_FALSE(failed.contains(r.sequence));
    ASSERT_TRUE(q.running || admitted.contains(r.sequence));
    ASSERT_GE(r.rows, 1u);
    ASSERT_LE(r.rows, pending);
    ASSERT_EQ(r.logit_rows, r.rows == pending ? 1u : 0u);
    rows += r.rows;
    (pending == 1 ? decode : prefill) += r.rows;
    newcomer_decodes |= pending == 1 && !q.running;
    const uint32_t needed = BlocksFor(q.computed + r.rows);
    if (needed > q.blocks) taken += needed - q.blocks;
  }
  ASSERT_LE(rows, s.max_batch_tokens);
  ASSERT_LE(taken, room);
  if (decode > 0 && !newcomer_decodes) {
    ASSERT_LE(prefill, s.max_prefill_tokens_beside_decode);
  }
  // Victims are younger than whoever they make room for.
  if (!preempted.empty() && !plan.rows.empty()) {
    ASSERT_LT(plan.rows[0].sequence, *preempted.begin());
  }
  uint32_t running = 0;
  for (size_t i = 0; i < s.sequences.size(); ++i) {
    running += (s.sequences[i].running && !preempted.contains(i)) ||
               admitted.contains(i);
  }
  if (!admitted.empty()) {
    ASSERT_LE(running, s.max_sequences);
  }
}

struct Workload {
  explicit Workload(uint64_t seed) : random(seed) {
    snapshot.total_blocks = 8 + Below(20);
    snapshot.block_tokens = kBlockTokens;
    snapshot.max_batch_tokens = 1 + Below(24);
    snapshot.max_sequences = 1 + Below(5);
    snapshot.max_prefill_tokens_beside_decode = 1 + Below(8);
    if (snapshot.max_batch_tokens < snapshot.max_sequences) {
      snapshot.max_batch_tokens = snapshot.max_sequences;
    }
  }
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random() % n); }

  void Arrive() {
    const uint32_t limit = snapshot.total_blocks * kBlockTokens;
    SequenceSnapshot sequence;
    sequence.tokens = 1 + Below(limit * 3 / 4);
    snapshot.sequences.push_back(sequence);
    goals.push_back(std::min(limit, sequence.tokens + 1 + Below(limit / 4)));
  }

  // Returns whether anything happened.
  bool Step() {
    uint32_t held = 0;
    for (const auto& q : snapshot.sequences) held += q.blocks;
    snapshot.available_blocks = snapshot.total_blocks - held;
    const StepPlan plan = PlanStep(snapshot);
    CheckPlan(snapshot, plan);
    if (testing::Test::HasFatalFailure()) return false;
    EXPECT_TRUE(plan.fail.empty());
    for (size_t i : plan.preempt) {
      snapshot.sequences[i] = {.tokens = snapshot.sequences[i].tokens};
    }
    for (size_t i : plan.admit) snapshot.sequences[i].running = true;
    if (!plan.rows.empty()) {
      const bool oldest =
          std::any_of(plan.rows.begin(), plan.rows.end(),
                      [](const StepPlan::Rows& r) { return r.sequence == 0; });
      // Only rows of others that decode may keep the oldest prompt waiting.
      EXPECT_TRUE(oldest || plan.rows[0].logit_rows == 1);
    }
    for (const StepPlan::Rows& r : plan.rows) {
      SequenceSnapshot& q = snapshot.sequences[r.sequence];
      q.computed += r.rows;
      q.blocks = std::max(q.blocks, BlocksFor(q.computed));
      q.releasable_blocks = q.blocks;
      q.tokens += r.logit_rows;
    }
    for (size_t i = snapshot.sequences.size(); i-- > 0;) {
      if (snapshot.sequences[i].tokens < goals[i] + 1) continue;
      snapshot.sequences.erase(snapshot.sequences.begin() + i);
      goals.erase(goals.begin() + i);
    }
    return !plan.rows.empty() || !plan.preempt.empty();
  }

  std::mt19937_64 random;
  PlannerSnapshot snapshot;
  std::vector<uint32_t> goals;
};

TEST(PlannerProperty, EveryWorkloadEndsAndEachPlanIsSound) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Workload workload(seed);
    uint32_t steps = 0;
    for (int arrivals = 30; arrivals > 0 || !workload.goals.empty();) {
      if (arrivals > 0 && workload.Below(3) == 0) {
        workload.Arrive();
        --arrivals;
      }
      const bool empty = workload.goals.empty();
      ASSERT_TRUE(workload.Step() || empty);
      ASSERT_LT(++steps, 100000u);
      if (HasFailure()) return;
    }
  }
}

TEST(PlannerProperty, AnySnapshotGivesASoundPlan) {
  std::mt19937_64 random(77);
  const auto below = [&](uint32_t n) {
    return static_cast<uint32_t>(random() % n);
  };
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    PlannerSnapshot s;
    s.total_blocks = 60;
    s.block_tokens = kBlockTokens;
    s.max_batch_tokens = 1 + below(40);
    s.max_sequences = 1 + below(6);
    s.max_prefill_tokens_beside_decode = 1 + below(12);
    s.available_blocks = below(10);
    const uint32_t runners = below(s.max_sequences + 1);
    for (uint32_t i = 0; i < runners + below(4); ++i) {
      SequenceSnapshot q;
      q.running = i < runners;
      q.tokens = 1 + below(40);
      q.computed = below(3) == 0 ? q.tokens - 1 : below(q.tokens);
      q.blocks = BlocksFor(q.computed) + below(2);
      q.releasable_blocks = below(q.blocks + 1);
      s.sequences.push_back(q);
    }
    CheckPlan(s, PlanStep(s));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace baton::worker
