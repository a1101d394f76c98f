// The float formats' kernels, as entries of MatMulForms. Free of functions with
// bodies: included by files that are compiled with different instruction sets.
#ifndef BATON_WORKER_KERNELS_MATMUL_FLOAT_MATMUL_H_
#define BATON_WORKER_KERNELS_MATMUL_FLOAT_MATMUL_H_

#include "worker/kernels/matmul/weight_format.h"

namespace baton::worker {

void MultiplyF32Scalar(const TileTask& task);
void MultiplyF16Scalar(const TileTask& task);
void MultiplyBf16Scalar(const TileTask& task);

#if defined(__x86_64__)
void MultiplyF32Avx2(const TileTask& task);
void MultiplyF16Avx2(const TileTask& task);
void MultiplyBf16Avx2(const TileTask& task);
#endif

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_MATMUL_FLOAT_MATMUL_H_
