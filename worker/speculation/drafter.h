// Drafters propose the tokens that may come next. The engine verifies every one
// of them against the model's own choice, so a proposal never changes what is
// written, only how many steps it takes (worker/engine/device_loop.h).
#ifndef BATON_WORKER_SPECULATION_DRAFTER_H_
#define BATON_WORKER_SPECULATION_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "services/base/draft_method.h"
#include "services/base/ids.h"

namespace baton::worker {

struct DraftRequest {
  SequenceId sequence;
  // Committed. Between two requests of a sequence tokens are only appended.
  std::span<const TokenId> tokens;
  uint32_t most = 0;  // at least 1
  DraftMethods allowed = DraftMethods::All();
  // Of the sequence's blocks. Positions from tokens.size() - 1 on are the
  // drafter's to write draft rows to, as far as the table reaches.
  std::span<const uint32_t> block_table;
  // Draft rows before tokens.size() - 1, and the hidden row there, are right.
  bool primed = false;
};

struct Draft {
  std::vector<TokenId> tokens;  // empty = nothing to propose
  DraftMethod method = DraftMethod::kNgram;
};

// Serves all sequences of a worker. Device thread only.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual DraftMethods methods() const = 0;
  // It writes draft rows: block tables should reach `most` rows further.
  virtual bool writes_rows() const { return false; }
  // One draft for each request: at most `most` tokens of the vocabulary.
  virtual std::vector<Draft> Propose(
      std::span<const DraftRequest> requests) = 0;
  // What became of a draft: its tokens were verified (as many as it has now),
  // the first `accepted` of them are right.
  virtual void OnVerified(SequenceId sequence, const Draft& draft,
                          uint32_t accepted) {
    (void)sequence, (void)draft, (void)accepted;
  }
  // A step of decode rows alone, over `context` positions in all.
  virtual void OnStep(uint32_t rows, uint64_t context,
                      absl::Duration duration) {
    (void)rows, (void)context, (void)duration;
  }
  // The sequence has ended; nothing of it may be kept. Unknown ones are fine.
  virtual void Forget(SequenceId sequence) = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_DRAFTER_H_
