#include "worker/speculation/adaptive_drafter.h"

#include <algorithm>
#include <utility>

#include "worker/speculation/draft_lengths.h"

namespace baton::worker {
namespace {

// Weight of a new draft step's time, and its share of a step until it is seen.
constexpr double kNewDraftStep = 0.1;
constexpr double kUnseenDraftStep = 0.1;

}  // namespace

AdaptiveDrafter::AdaptiveDrafter(std::unique_ptr<Drafter> ngram,
                                 std::unique_ptr<Drafter> mtp,
                                 const Clock* clock)
    : ngram_(std::move(ngram)), mtp_(std::move(mtp)), clock_(clock) {}

DraftMethods AdaptiveDrafter::methods() const {
  DraftMethods methods;
  if (ngram_ != nullptr) methods.Add(DraftMethod::kNgram);
  if (mtp_ != nullptr) methods.Add(DraftMethod::kMtp);
  return methods;
}

std::vector<double> AdaptiveDrafter::Chances(const History& history,
                                             DraftMethod method,
                                             uint32_t most) const {
  std::vector<double> chances;
  for (uint32_t place = 0; place < most; ++place) {
    chances.push_back(
        history.acceptance[Index(method)].Chance(place, usual_[Index(method)]));
  }
  return chances;
}

double AdaptiveDrafter::DraftStepCost(uint32_t rows, uint64_t context) const {
  return draft_step_ > 0 ? draft_step_
                         : kUnseenDraftStep * costs_.Estimate(rows, context);
}

std::vector<Draft> AdaptiveDrafter::Propose(
    std::span<const DraftRequest> requests) {
  std::vector<Draft> drafts(requests.size());
  if (ngram_ != nullptr) drafts = ngram_->Propose(requests);
  std::vector<DraftCandidate> candidates(requests.size());
  uint64_t context = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    context += request.tokens.size();
    DraftCandidate& candidate = candidates[i];
    DraftMethod method = DraftMethod::kNgram;
    candidate.most = static_cast<uint32_t>(drafts[i].tokens.size());
    if (candidate.most == 0 && mtp_ != nullptr && request.primed &&
        request.allowed.Has(DraftMethod::kMtp)) {
      method = DraftMethod::kMtp;
      candidate.most = request.most;
      candidate.costs_steps = true;
    }
    candidate.chances =
        Chances(histories_[request.sequence], method, candidate.most);
  }
  const auto rows = static_cast<uint32_t>(requests.size());
  if (costs_.Age(rows, context) > kRefresh) {
    return std::vector<Draft>(requests.size());
  }
  DraftCosts costs;
  costs.step = [&](uint32_t count) { return costs_.Estimate(count, context); };
  costs.draft_step = DraftStepCost(rows, context);
  std::vector<uint32_t> lengths = ChooseDraftLengths(candidates, rows, costs);
  for (size_t i = 0; i < requests.size(); ++i) {
    History& history = histories_[requests[i].sequence];
    if (lengths[i] > 0) {
      history.idle_steps = 0;
      history.patience = kPatience;
      if (++history.drafts >= kLonger) {
        history.drafts = 0;
        lengths[i] = std::min(lengths[i] + 2, candidates[i].most);
      }
    } else if (candidates[i].most > 0 &&
               ++history.idle_steps >= history.patience) {
      lengths[i] = 1;
      history.idle_steps = 0;
      history.patience = std::min(2 * history.patience, kMostPatience);
      for (Acceptance& acceptance : history.acceptance) acceptance.Fade();
      for (Acceptance& acceptance : usual_) acceptance.Fade();
    }
    if (drafts[i].tokens.size() > lengths[i]) {
      drafts[i].tokens.resize(lengths[i]);
    }
    if (!candidates[i].costs_steps) lengths[i] = 0;
  }
  AskMtp(requests, lengths, &drafts);
  return drafts;
}

void AdaptiveDrafter::AskMtp(std::span<const DraftRequest> requests,
                             std::span<const uint32_t> lengths,
                             std::vector<Draft>* drafts) {
  std::vector<DraftRequest> asked;
  std::vector<size_t> places;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (lengths[i] == 0) continue;
    asked.push_back(requests[i]);
    asked.back().most = lengths[i];
    places.push_back(i);
  }
  if (asked.empty()) return;
  const absl::Duration start = clock_->Monotonic();
  std::vector<Draft> proposed = mtp_->Propose(asked);
  const double seconds = absl::ToDoubleSeconds(clock_->Monotonic() - start);
  size_t steps = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    steps = std::max(steps, proposed[i].tokens.size());
    (*drafts)[places[i]] = std::move(proposed[i]);
  }
  if (steps == 0) return;
  const double each = seconds / static_cast<double>(steps);
  draft_step_ = draft_step_ == 0
                    ? each
                    : draft_step_ + kNewDraftStep * (each - draft_step_);
}

void AdaptiveDrafter::Forget(SequenceId sequence) {
  histories_.erase(sequence);
  if (ngram_ != nullptr) ngram_->Forget(sequence);
  if (mtp_ != nullptr) mtp_->Forget(sequence);
}

void AdaptiveDrafter::OnVerified(SequenceId sequence, const Draft& draft,
                                 uint32_t accepted) {
  const auto drafted = static_cast<uint32_t>(draft.tokens.size());
  const size_t method = Index(draft.method);
  usual_[method].Observe(drafted, accepted);
  histories_[sequence].acceptance[method].Observe(drafted, accepted);
}

void AdaptiveDrafter::OnStep(uint32_t rows, uint64_t context,
                             absl::Duration duration) {
  costs_.Observe(rows, context, absl::ToDoubleSeconds(duration));
}

}  // namespace baton::worker
