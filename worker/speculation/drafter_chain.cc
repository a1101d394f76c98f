#include "worker/speculation/drafter_chain.h"

#include <algorithm>
#include <cstddef>

namespace baton::worker {

DraftMethods DrafterChain::methods() const {
  DraftMethods methods;
  for (const auto& drafter : drafters_) {
    for (const DraftMethod method : kDraftMethods) {
      if (drafter->methods().Has(method)) methods.Add(method);
    }
  }
  return methods;
}

bool DrafterChain::writes_rows() const {
  return std::any_of(
      drafters_.begin(), drafters_.end(),
      [](const auto& drafter) { return drafter->writes_rows(); });
}

std::vector<Draft> DrafterChain::Propose(
    std::span<const DraftRequest> requests) {
  std::vector<Draft> drafts(requests.size());
  for (const auto& drafter : drafters_) {
    std::vector<DraftRequest> open;
    std::vector<size_t> places;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!drafts[i].tokens.empty()) continue;
      open.push_back(requests[i]);
      places.push_back(i);
    }
    if (open.empty()) break;
    std::vector<Draft> proposed = drafter->Propose(open);
    for (size_t i = 0; i < places.size(); ++i) {
      drafts[places[i]] = std::move(proposed[i]);
    }
  }
  return drafts;
}

void DrafterChain::Forget(SequenceId sequence) {
  for (const auto& drafter : drafters_) drafter->Forget(sequence);
}

}  // namespace baton::worker
