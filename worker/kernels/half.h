// IEEE half precision by integer arithmetic: what the hardware instructions
// give, including subnormal numbers and not-a-number.
#ifndef BATON_WORKER_KERNELS_HALF_H_
#define BATON_WORKER_KERNELS_HALF_H_

#include <cstdint>

namespace baton::worker {

float HalfToFloat(uint16_t half);
// Rounds to nearest, ties to even.
uint16_t FloatToHalf(float value);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_HALF_H_
