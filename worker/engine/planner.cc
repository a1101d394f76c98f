#include "worker/engine/planner.h"

#include <algorithm>
#include <cstdint>

#include "services/base/checked_math.h"

namespace baton::worker {
namespace {

// The plan in the making: what each sequence holds after the part planned so
// far.
class Planning {
 public:
  explicit Planning(const PlannerSnapshot& snapshot)
      : snapshot_(snapshot),
        available_(snapshot.available_blocks),
        budget_(std::max<uint32_t>(1, snapshot.max_batch_tokens)),
        states_(snapshot.sequences.size()) {
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i].running = At(i).running;
      states_[i].blocks = At(i).blocks;
      states_[i].releasable = At(i).releasable_blocks;
    }
  }

  StepPlan Plan() {
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].running && Pending(i) == 1) PlanRows(i, budget_);
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      PlanDrafts(i);
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].running && Pending(i) > 1) PlanRows(i, ChunkBudget());
    }
    // Whoever gave up blocks would be the first to come back for them.
    if (plan_.preempt.empty()) Admit();
    EmitRows();
    return std::move(plan_);
  }

 private:
  struct State {
    bool running = false;
    bool failed = false;
    uint32_t rows = 0;  // planned, those of drafts included
    uint32_t drafts = 0;
    uint32_t blocks = 0;
    uint32_t releasable = 0;
  };

  const SequenceSnapshot& At(size_t i) const { return snapshot_.sequences[i]; }

  uint32_t Pending(size_t i) const { return At(i).tokens - At(i).computed; }

  uint32_t BlocksFor(uint32_t tokens) const {
    return static_cast<uint32_t>(DivideUp(tokens, snapshot_.block_tokens));
  }

  // Blocks that a sequence still has to get before it can decode one token.
  uint32_t Outstanding(size_t i) const {
    const uint32_t wanted =
        std::min(BlocksFor(At(i).tokens) + 1, snapshot_.total_blocks);
    return wanted > states_[i].blocks ? wanted - states_[i].blocks : 0;
  }

  uint32_t ChunkBudget() const {
    if (decode_rows_ == 0) return budget_;
    const uint32_t limit =
        std::max<uint32_t>(1, snapshot_.max_prefill_tokens_beside_decode);
    return std::min(budget_, limit > prefill_rows_ ? limit - prefill_rows_ : 0);
  }

  void Preempt(size_t i) {
    State& state = states_[i];
    if (state.rows > 0) ReturnRows(i);
    available_ += state.releasable;
    state.blocks = 0;
    state.releasable = 0;
    state.running = false;
    plan_.preempt.push_back(i);
  }

  void ReturnRows(size_t i) {
    State& state = states_[i];
    budget_ += state.rows;
    (Pending(i) == 1 ? decode_rows_ : prefill_rows_) -= state.rows;
    state.rows = 0;
    state.drafts = 0;
  }

  // Takes blocks from those younger than `i` until `wanted` are available or
  // nobody is left to take from.
  void MakeRoom(size_t i, uint64_t wanted) {
    for (size_t victim = states_.size(); victim-- > i + 1;) {
      if (available_ >= wanted) return;
      if (states_[victim].blocks > 0) Preempt(victim);
    }
  }

  uint64_t AvailableFromYounger(size_t i) const {
    uint64_t blocks = available_;
    for (size_t j = i + 1; j < states_.size(); ++j) {
      blocks += states_[j].releasable;
    }
    return blocks;
  }

  void PlanRows(size_t i, uint32_t budget) {
    State& state = states_[i];
    if (BlocksFor(At(i).tokens) > snapshot_.total_blocks) {
      state.failed = true;
      plan_.fail.push_back(i);
      return;
    }
    // Blocks that somebody older than this one gave up are not for this one.
    if (!plan_.preempt.empty() && plan_.preempt.back() < i) return;
    uint32_t rows = std::min(Pending(i), budget);
    if (rows == 0) return;
    const uint32_t held_room =
        state.blocks * snapshot_.block_tokens - At(i).computed;
    if (rows > held_room) {
      MakeRoom(i, BlocksFor(At(i).computed + rows) - state.blocks);
      const uint64_t room = held_room + static_cast<uint64_t>(available_) *
                                            snapshot_.block_tokens;
      rows = static_cast<uint32_t>(std::min<uint64_t>(rows, room));
      if (rows == 0) return;
    }
    const uint32_t blocks = BlocksFor(At(i).computed + rows);
    if (blocks > state.blocks) {
      available_ -= blocks - state.blocks;
      state.releasable += blocks - state.blocks;
      state.blocks = blocks;
    }
    state.rows = rows;
    budget_ -= rows;
    (Pending(i) == 1 ? decode_rows_ : prefill_rows_) += rows;
  }

  // Behind a planned row that is the last committed token's.
  void PlanDrafts(size_t i) {
    State& state = states_[i];
    if (state.rows != 1 || Pending(i) != 1) return;
    const uint32_t fed = At(i).computed + state.rows;
    const uint64_t room = (static_cast<uint64_t>(state.blocks) + available_) *
                              snapshot_.block_tokens -
                          fed;
    const uint32_t drafts = static_cast<uint32_t>(
        std::min<uint64_t>({At(i).drafts, budget_, room}));
    const uint32_t blocks = BlocksFor(fed + drafts);
    if (blocks > state.blocks) {
      available_ -= blocks - state.blocks;
      state.releasable += blocks - state.blocks;
      state.blocks = blocks;
    }
    state.rows += drafts;
    state.drafts = drafts;
    budget_ -= drafts;
    decode_rows_ += drafts;
  }

  void Admit() {
    uint32_t running = 0;
    uint64_t reserved = 0;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].running || states_[i].failed) continue;
      ++running;
      reserved += Outstanding(i);
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].running || states_[i].failed) continue;
      if (running >= std::max<uint32_t>(1, snapshot_.max_sequences)) return;
      const uint32_t needed = Outstanding(i);
      // All who are younger wait. If nothing runs they alone are in the way,
      // and those that share blocks free more than each counts.
      if (running == 0 || reserved + needed <= AvailableFromYounger(i)) {
        MakeRoom(i, reserved + needed);
      }
      if (reserved + needed > available_) return;
      const uint32_t budget = Pending(i) == 1 ? budget_ : ChunkBudget();
      if (budget == 0) return;
      states_[i].running = true;
      plan_.admit.push_back(i);
      PlanRows(i, budget);
      PlanDrafts(i);
      reserved += Outstanding(i);
      ++running;
      // Whoever gave up blocks is known again from the next snapshot on.
      if (!plan_.preempt.empty()) return;
    }
  }

  void EmitRows() {
    for (const bool decode : {true, false}) {
      for (size_t i = 0; i < states_.size(); ++i) {
        const uint32_t rows = states_[i].rows;
        if (rows == 0 || (Pending(i) == 1) != decode) continue;
        const uint32_t drafts = states_[i].drafts;
        const bool last = rows - drafts == Pending(i);
        plan_.rows.push_back({i, rows, last ? 1 + drafts : 0});
      }
    }
  }

  const PlannerSnapshot& snapshot_;
  uint32_t available_;
  uint32_t budget_;  // rows left in the step
  uint32_t decode_rows_ = 0;
  uint32_t prefill_rows_ = 0;
  std::vector<State> states_;
  StepPlan plan_;
};

}  // namespace

StepPlan PlanStep(const PlannerSnapshot& snapshot) {
  return Planning(snapshot).Plan();
}

}  // namespace baton::worker
