// Several drafters, asked in turn: a sequence's draft is that of the first one
// that has any.
#ifndef BATON_WORKER_SPECULATION_DRAFTER_CHAIN_H_
#define BATON_WORKER_SPECULATION_DRAFTER_CHAIN_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "worker/speculation/drafter.h"

namespace baton::worker {

class DrafterChain final : public Drafter {
 public:
  explicit DrafterChain(std::vector<std::unique_ptr<Drafter>> drafters)
      : drafters_(std::move(drafters)) {}
  DraftMethods methods() const override;
  bool writes_rows() const override;
  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override;
  void Forget(SequenceId sequence) override;

 private:
  const std::vector<std::unique_ptr<Drafter>> drafters_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_DRAFTER_CHAIN_H_
