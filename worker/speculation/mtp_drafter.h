// Drafts with the model's MTP block: from the last committed token and the
// hidden row before it, one token a step, each step from the hidden row of the
// step before. Keeps nothing of a sequence: rows and hidden row lie in its
// blocks, written by the model's own steps (worker/model/ggml_forward.h).
#ifndef BATON_WORKER_SPECULATION_MTP_DRAFTER_H_
#define BATON_WORKER_SPECULATION_MTP_DRAFTER_H_

#include <span>
#include <vector>

#include "worker/model/forward.h"
#include "worker/speculation/drafter.h"

namespace baton::worker {

class MtpDrafter final : public Drafter {
 public:
  struct Options {
    // A token less likely than this ends the draft before it.
    float least_probability = 0;
    uint32_t block_tokens = 64;
  };
  // `forward` must outlive this; forward->drafts().
  MtpDrafter(const Options& options, Forward* forward)
      : options_(options), forward_(forward) {}

  DraftMethods methods() const override;
  bool writes_rows() const override { return true; }
  // A sequence that is not primed gets no draft; nor does any after a step
  // that failed, which is logged.
  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override;
  void Forget(SequenceId) override {}

 private:
  const Options options_;
  Forward* const forward_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_MTP_DRAFTER_H_
