// Drafts by looking back: where the last tokens of a sequence stood before, in
// its prompt or its output, what followed there may follow here. Good for
// edits, quotations and repetition; costs no forward pass. Source of the idea:
// prompt lookup decoding (Saxena 2023).
#ifndef BATON_WORKER_SPECULATION_NGRAM_DRAFTER_H_
#define BATON_WORKER_SPECULATION_NGRAM_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "worker/speculation/drafter.h"

namespace baton::worker {

// Finds earlier occurrences of a sequence's last tokens, as it grows. Memory:
// some 20 bytes a token. Thread-compatible.
class SuffixIndex {
 public:
  // Fewer equal tokens are chance.
  static constexpr uint32_t kShortest = 3;

  // Takes in the new tokens of `tokens`, which begins with those of the calls
  // before. Returns what followed the occurrence before which most tokens are
  // equal (the latest of equals), at most `most` tokens; a sequence that runs
  // in circles is continued in circles.
  std::vector<TokenId> Continuation(std::span<const TokenId> tokens,
                                    uint32_t most);

 private:
  // Ends (exclusive) of the latest occurrence, by the hash of its tokens.
  absl::flat_hash_map<uint64_t, uint32_t> latest_;
  // By end: that of the occurrence before, 0 = none.
  std::vector<uint32_t> earlier_;
};

class NgramDrafter final : public Drafter {
 public:
  DraftMethods methods() const override;
  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override;
  void Forget(SequenceId sequence) override { indexes_.erase(sequence); }

 private:
  absl::flat_hash_map<SequenceId, SuffixIndex> indexes_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_NGRAM_DRAFTER_H_
