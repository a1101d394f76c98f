// What the next step does: which sequences get how many rows, who is admitted
// and who gives up blocks. A pure function of a snapshot.
//
// Rules, in this order of priority:
//   1. One row for each running sequence that needs one only (decode).
//   2. Rows for the drafts behind it, in blocks that are held or free: nobody
//      gives up any for a draft.
//   3. Chunks of prompts in arrival order, under max_batch_tokens, and under
//      max_prefill_tokens_beside_decode if the step has a decode row.
//   4. Waiting sequences are admitted in arrival order, while there are
//      sequence slots, rows, and blocks for all tokens of every running
//      sequence, one block more each, and the newcomer's.
// A sequence that lacks blocks takes them from the youngest that holds any and
// is younger than itself; one that has nobody to take from waits with what it
// has. So the oldest always moves on, and nobody older is ever disturbed.
#ifndef BATON_WORKER_ENGINE_PLANNER_H_
#define BATON_WORKER_ENGINE_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::worker {

struct SequenceSnapshot {
  bool running = false;
  uint32_t tokens = 0;    // committed
  uint32_t computed = 0;  // leading tokens with KV rows; below `tokens`
  uint32_t blocks = 0;    // held
  // Of those, held by this sequence alone: what giving up would set free.
  uint32_t releasable_blocks = 0;
  uint32_t drafts = 0;  // tokens proposed behind the committed ones
};

struct PlannerSnapshot {
  // In arrival order, oldest first.
  std::vector<SequenceSnapshot> sequences;
  uint32_t available_blocks = 0;
  uint32_t total_blocks = 0;
  uint32_t block_tokens = 64;
  uint32_t max_batch_tokens = 512;
  uint32_t max_sequences = 16;
  uint32_t max_prefill_tokens_beside_decode = 128;
};

// Members are indexes into PlannerSnapshot::sequences.
struct StepPlan {
  struct Rows {
    size_t sequence = 0;
    uint32_t rows = 0;
    // 1 if the rows end with the last committed token, and 1 for each draft
    // behind it; else 0.
    uint32_t logit_rows = 0;
    bool operator==(const Rows&) const = default;
  };
  // Decode rows first, then prompt chunks, each in arrival order.
  std::vector<Rows> rows;
  std::vector<size_t> admit;
  // Give up all blocks; those that run wait again. Before anything is
  // allocated.
  std::vector<size_t> preempt;
  // Needs more blocks than the pool has.
  std::vector<size_t> fail;
};

StepPlan PlanStep(const PlannerSnapshot& snapshot);

}  // namespace baton::worker

#endif  // BATON_WORKER_ENGINE_PLANNER_H_
