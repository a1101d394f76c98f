// Drafters propose the tokens that may come next. The engine verifies every one
// of them against the model's own choice, so a proposal never changes what is
// written, only how many steps it takes (worker/engine/device_loop.h).
#ifndef BATON_WORKER_SPECULATION_DRAFTER_H_
#define BATON_WORKER_SPECULATION_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/base/ids.h"

namespace baton::worker {

struct DraftRequest {
  SequenceId sequence;
  // Committed. Between two requests of a sequence tokens are only appended.
  std::span<const TokenId> tokens;
  uint32_t most = 0;  // at least 1
};

// Serves all sequences of a worker. Device thread only.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // For metrics: "ngram", "mtp", …
  virtual absl::string_view method() const = 0;
  // One draft for each request: at most `most` tokens of the vocabulary, none
  // if there is nothing to propose.
  virtual std::vector<std::vector<TokenId>> Propose(
      std::span<const DraftRequest> requests) = 0;
  // The sequence has ended; nothing of it may be kept. Unknown ones are fine.
  virtual void Forget(SequenceId sequence) = 0;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_DRAFTER_H_
