// How often drafted tokens are accepted, by their place in the draft: the
// conditional chance, given that all before were.
#ifndef BATON_WORKER_SPECULATION_ACCEPTANCE_H_
#define BATON_WORKER_SPECULATION_ACCEPTANCE_H_

#include <array>
#include <cstdint>

namespace baton::worker {

// Old drafts count less than new ones. Thread-compatible.
class Acceptance {
 public:
  // Of `drafted` tokens the first `accepted` were. What stands behind the first
  // refused one was never judged and tells nothing.
  void Observe(uint32_t drafted, uint32_t accepted);
  // Time has passed: what is known counts half.
  void Fade();
  // Of the token at `place` (from 0). While little is known: `prior`'s.
  double Chance(uint32_t place, const Acceptance& prior) const;
  // The same with a guess for what nobody has seen.
  double Chance(uint32_t place) const;

 private:
  // Later places share the last one.
  static constexpr uint32_t kPlaces = 8;
  struct Place {
    double tried = 0, accepted = 0;
  };
  const Place& At(uint32_t place) const {
    return places_[place < kPlaces ? place : kPlaces - 1];
  }
  std::array<Place, kPlaces> places_{};
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SPECULATION_ACCEPTANCE_H_
