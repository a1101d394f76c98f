#include "worker/speculation/mtp_drafter.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "services/base/log.h"

namespace baton::worker {

DraftMethods MtpDrafter::methods() const {
  DraftMethods methods;
  methods.Add(DraftMethod::kMtp);
  return methods;
}

std::vector<Draft> MtpDrafter::Propose(std::span<const DraftRequest> requests) {
  std::vector<Draft> drafts(requests.size());
  // Those that draft on, and their next rows.
  std::vector<size_t> going;
  std::vector<DraftRow> rows;
  // How many tokens a draft may have: each needs a row of its own before it.
  std::vector<size_t> room(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    drafts[i].method = DraftMethod::kMtp;
    if (!request.primed || !request.allowed.Has(DraftMethod::kMtp)) continue;
    const size_t position = request.tokens.size() - 1;
    const size_t reach = request.block_table.size() * options_.block_tokens;
    if (reach <= position) continue;
    room[i] = std::min<size_t>(request.most, reach - position);
    if (room[i] == 0) continue;
    going.push_back(i);
    rows.push_back({request.tokens.back(),
                    static_cast<uint32_t>(position),
                    request.block_table,
                    {}});
  }
  DraftStep last;  // holds the hidden rows that `rows` name
  while (!going.empty()) {
    absl::StatusOr<DraftStep> step = forward_->RunDraft(rows);
    if (!step.ok()) {
      Log(LogLevel::kError, "draft step failed",
          {{"sequences", going.size()}, {"error", step.status().ToString()}});
      break;
    }
    last = *std::move(step);
    std::vector<size_t> still;
    std::vector<DraftRow> next;
    for (size_t i = 0; i < going.size(); ++i) {
      if (last.probabilities[i] < options_.least_probability) continue;
      std::vector<TokenId>& draft = drafts[going[i]].tokens;
      draft.push_back(last.tokens[i]);
      if (draft.size() == room[going[i]]) continue;
      still.push_back(going[i]);
      next.push_back({last.tokens[i], rows[i].position + 1, rows[i].block_table,
                      last.hidden_row(i)});
    }
    going = std::move(still);
    rows = std::move(next);
  }
  return drafts;
}

}  // namespace baton::worker
