// Rotary positions (Su et al., arXiv:2104.09864): the angles, and the table of
// their cosines and sines that all layers of a step share.
//
// Everything here is computed in double by additions, products, divisions and
// fma in one written order, with no function of libm that may round one way or
// the other: the same bits on every machine. Up to position 10^6 a table entry
// is the exact value, rounded to float, give or take 1e-9. (With angles in
// float, as products of a float's powers, it is 2e-4 off by position 8000.)
#ifndef BATON_WORKER_KERNELS_ROWS_ROPE_H_
#define BATON_WORKER_KERNELS_ROWS_ROPE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace baton::worker {

// Which elements of a head RoPE turns together: 2i and 2i + 1, or i and
// i + dims / 2.
enum class RopePairs { kAdjacent, kHalves };

// frequency[i] = position_scale / factors[i] * base^(-2 i / dimensions), the
// angle per position of pair i. factors: [dimensions / 2], or empty for ones.
// dimensions is even; base is positive and finite.
std::vector<double> RopeFrequencies(size_t dimensions, float base,
                                    float position_scale,
                                    std::span<const float> factors);

// The table's row of a position: cosines, then signed sines, one of each for
// every element that turns (dimensions = 2 * frequencies). The sine of a pair
// is negative for its first element. table: [2 * dimensions].
void FillRopeRow(std::span<const double> frequencies, RopePairs pairs,
                 int32_t position, float* table);

// Each within 1e-13 of itself, or 1e-23 where it is nearly zero. Both are NaN
// for an angle beyond +-2^31 or that is no number, which only odd parameters
// of a model give.
struct SineCosine {
  double sine = 0;
  double cosine = 0;
};
SineCosine SineAndCosine(double angle);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ROWS_ROPE_H_
