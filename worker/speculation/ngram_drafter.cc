#include "worker/speculation/ngram_drafter.h"

namespace baton::worker {
namespace {

// Occurrences that are compared; the text of a hard one has thousands.
constexpr int kMostOccurrences = 16;
// Equal tokens beyond these make no occurrence better.
constexpr uint32_t kLongest = 64;

// Of the kShortest tokens before `end`. Equal hashes are compared token by
// token afterwards.
uint64_t HashBefore(std::span<const TokenId> tokens, uint32_t end) {
  uint64_t hash = 0;
  for (uint32_t i = end - SuffixIndex::kShortest; i < end; ++i) {
    hash = (hash ^ static_cast<uint64_t>(tokens[i])) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash;
}

// How many tokens before `a` and before `b` are equal; b > a.
uint32_t EqualBefore(std::span<const TokenId> tokens, uint32_t a, uint32_t b) {
  uint32_t equal = 0;
  while (equal < a && equal < kLongest &&
         tokens[a - 1 - equal] == tokens[b - 1 - equal]) {
    ++equal;
  }
  return equal;
}

}  // namespace

std::vector<TokenId> SuffixIndex::Continuation(std::span<const TokenId> tokens,
                                               uint32_t most) {
  const uint32_t end = static_cast<uint32_t>(tokens.size());
  if (end < kShortest) return {};
  uint32_t next = static_cast<uint32_t>(earlier_.size());
  earlier_.resize(end + 1);
  for (next = next < kShortest ? kShortest : next; next <= end; ++next) {
    uint32_t& latest = latest_[HashBefore(tokens, next)];
    earlier_[next] = latest;
    latest = next;
  }
  uint32_t best = 0, best_equal = kShortest - 1;
  int compared = 0;
  for (uint32_t at = earlier_[end]; at != 0 && compared < kMostOccurrences;
       at = earlier_[at], ++compared) {
    const uint32_t equal = EqualBefore(tokens, at, end);
    if (equal <= best_equal) continue;
    best = at;
    best_equal = equal;
  }
  std::vector<TokenId> draft;
  if (best == 0) return draft;
  for (uint32_t i = 0; i < most; ++i) {
    const uint32_t from = best + i;
    draft.push_back(from < end ? tokens[from] : draft[from - end]);
  }
  return draft;
}

DraftMethods NgramDrafter::methods() const {
  DraftMethods methods;
  methods.Add(DraftMethod::kNgram);
  return methods;
}

std::vector<Draft> NgramDrafter::Propose(
    std::span<const DraftRequest> requests) {
  std::vector<Draft> drafts(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    if (!request.allowed.Has(DraftMethod::kNgram)) continue;
    drafts[i].tokens =
        indexes_[request.sequence].Continuation(request.tokens, request.most);
  }
  return drafts;
}

}  // namespace baton::worker
