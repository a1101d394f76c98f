#include "worker/speculation/acceptance.h"

#include <algorithm>

namespace baton::worker {
namespace {

// Each judged draft makes the older ones count so much less.
constexpr double kDecay = 0.98;
// So many drafts the prior counts for.
constexpr double kPriorDrafts = 6;
// What nobody has seen: worth trying, and soon forgotten. A later place is
// thought to be like the one before it.
constexpr double kGuess = 0.7;
constexpr double kGuessDrafts = 1;
constexpr double kPlaceBefore = 4;

}  // namespace

void Acceptance::Observe(uint32_t drafted, uint32_t accepted) {
  const uint32_t judged = std::min(drafted, accepted + 1);
  for (uint32_t i = 0; i < judged; ++i) {
    Place& place = places_[std::min(i, kPlaces - 1)];
    place.tried = place.tried * kDecay + 1;
    place.accepted = place.accepted * kDecay + (i < accepted ? 1 : 0);
  }
}

void Acceptance::Fade() {
  for (Place& place : places_) {
    place.tried /= 2;
    place.accepted /= 2;
  }
}

double Acceptance::Chance(uint32_t place, const Acceptance& prior) const {
  const Place& own = At(place);
  return (own.accepted + kPriorDrafts * prior.Chance(place)) /
         (own.tried + kPriorDrafts);
}

double Acceptance::Chance(uint32_t place) const {
  const Place& own = At(place);
  const double weight = place == 0 ? kGuessDrafts : kPlaceBefore;
  const double guess = place == 0 ? kGuess : Chance(place - 1);
  return (own.accepted + weight * guess) / (own.tried + weight);
}

}  // namespace baton::worker
