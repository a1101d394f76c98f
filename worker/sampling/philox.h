// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel
// Random Numbers: As Easy as 1, 2, 3" (SC 2011). The number at a position is a
// pure function of (seed, position), so that a sequence draws the same tokens
// on whichever worker, and however often, it is continued. Thread-safe.
#ifndef BATON_WORKER_SAMPLING_PHILOX_H_
#define BATON_WORKER_SAMPLING_PHILOX_H_

#include <array>
#include <cstdint>

namespace baton::worker {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

// What a number is drawn for; numbers of different purposes are independent.
enum class DrawPurpose : uint32_t { kToken = 0 };

// Uniform in [0, 1), 53 bits. key = seed (low word first), counter =
// (position, choice, purpose, 0).
double UniformAt(uint64_t seed, uint32_t position, uint32_t choice,
                 DrawPurpose purpose);

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_PHILOX_H_
