// How many tokens to draft for each sequence of a step, so that the most tokens
// a second are to be expected. Pure.
//
// A step of n sequences that drafts k_s tokens each takes C(n + sum k) seconds,
// and d more for each draft step, which serves all sequences at once; it gives
// 1 + a_1 + a_1 a_2 + … tokens a sequence. Tokens are added one by one, the
// likeliest first, up to the limits; the best point on the way is taken, which
// also finds gains behind a costly first row. Nothing here depends on logits of
// the step that is decided.
#ifndef BATON_WORKER_SPECULATION_DRAFT_LENGTHS_H_
#define BATON_WORKER_SPECULATION_DRAFT_LENGTHS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace baton::worker {

struct DraftCandidate {
  uint32_t most = 0;  // 0 = does not draft
  // Each token costs a draft step; else they are there already.
  bool costs_steps = false;
  // By place: the chance of acceptance if all before were; at least `most`.
  std::vector<double> chances;
};

struct DraftCosts {
  std::function<double(uint32_t rows)> step;  // seconds
  double draft_step = 0;                      // seconds
};

// One length for each candidate. `rows`: of the step without drafts.
std::vector<uint32_t> ChooseDraftLengths(
    std::span<const DraftCandidate> candidates, uint32_t rows,
    const DraftCosts& costs);

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_DRAFT_LENGTHS_H_
