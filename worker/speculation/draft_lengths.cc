#include "worker/speculation/draft_lengths.h"

#include <algorithm>
#include <cstddef>

namespace baton::worker {

std::vector<uint32_t> ChooseDraftLengths(
    std::span<const DraftCandidate> candidates, uint32_t rows,
    const DraftCosts& costs) {
  std::vector<uint32_t> lengths(candidates.size()), best = lengths;
  // The chance that the next token of each counts.
  std::vector<double> reach;
  for (const DraftCandidate& candidate : candidates) {
    reach.push_back(candidate.most > 0 ? candidate.chances[0] : 0);
  }
  double tokens = rows;
  uint32_t total = 0, draft_steps = 0;
  double best_rate = tokens / costs.step(rows);
  while (true) {
    const size_t next = static_cast<size_t>(
        std::max_element(reach.begin(), reach.end()) - reach.begin());
    if (next == reach.size() || reach[next] <= 0) break;
    const DraftCandidate& candidate = candidates[next];
    tokens += reach[next];
    ++total;
    const uint32_t length = ++lengths[next];
    if (candidate.costs_steps) draft_steps = std::max(draft_steps, length);
    reach[next] =
        length < candidate.most ? reach[next] * candidate.chances[length] : 0;
    const double rate =
        tokens / (costs.step(rows + total) + draft_steps * costs.draft_step);
    if (rate > best_rate) {
      best_rate = rate;
      best = lengths;
    }
  }
  return best;
}

}  // namespace baton::worker
