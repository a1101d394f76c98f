// Drafts as long as they pay: asks the drafters in turn, and decides for every
// step how many tokens each sequence's draft has, from what steps, draft steps
// and acceptance have been so far (draft_lengths.h). Zero is a length; then a
// short draft now and then finds out whether that has changed.
#ifndef BATON_WORKER_SPECULATION_ADAPTIVE_DRAFTER_H_
#define BATON_WORKER_SPECULATION_ADAPTIVE_DRAFTER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/base/clock.h"
#include "worker/speculation/acceptance.h"
#include "worker/speculation/drafter.h"
#include "worker/speculation/step_costs.h"

namespace baton::worker {

class AdaptiveDrafter final : public Drafter {
 public:
  // `ngram` and `mtp` may be null; `clock` must outlive this.
  AdaptiveDrafter(std::unique_ptr<Drafter> ngram, std::unique_ptr<Drafter> mtp,
                  const Clock* clock);

  DraftMethods methods() const override;
  bool writes_rows() const override { return mtp_ != nullptr; }
  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override;
  void Forget(SequenceId sequence) override;
  void OnVerified(SequenceId sequence, const Draft& draft,
                  uint32_t accepted) override;
  void OnStep(uint32_t rows, uint64_t context,
              absl::Duration duration) override;

 private:
  // Steps without a draft before one is tried, and with drafts before one
  // without any shows what drafts are to be compared with.
  // The first becomes twice as long each time that it was in vain.
  static constexpr uint32_t kPatience = 16, kMostPatience = 128;
  static constexpr uint64_t kRefresh = 64;
  // Drafts before one that is longer than it should be.
  static constexpr uint32_t kLonger = 32;

  struct History {
    std::array<Acceptance, std::size(kDraftMethods)> acceptance;
    uint32_t idle_steps = 0;  // since the last draft
    uint32_t patience = kPatience;
    uint32_t drafts = 0;  // since one was made longer
  };
  static size_t Index(DraftMethod method) {
    return static_cast<size_t>(method);
  }
  std::vector<double> Chances(const History& history, DraftMethod method,
                              uint32_t most) const;
  double DraftStepCost(uint32_t rows, uint64_t context) const;
  // Drafts for those of `requests` whose draft is still empty and whose length
  // is not 0, and times it.
  void AskMtp(std::span<const DraftRequest> requests,
              std::span<const uint32_t> lengths, std::vector<Draft>* drafts);

  const std::unique_ptr<Drafter> ngram_, mtp_;
  const Clock* const clock_;
  StepCosts costs_;
  double draft_step_ = 0;  // seconds; 0 = not seen
  // Of all sequences: where a new one starts.
  std::array<Acceptance, std::size(kDraftMethods)> usual_;
  absl::flat_hash_map<SequenceId, History> histories_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_ADAPTIVE_DRAFTER_H_
