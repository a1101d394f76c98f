// AVX-512 intrinsics, for sources that are compiled with AVX-512 alone: the
// compiler's, or those of the header that BATON_AVX512_INTRINSICS names. A test
// emulates them so, and runs the same sources on any processor.
#ifndef BATON_WORKER_KERNELS_AVX512_INTRINSICS_H_
#define BATON_WORKER_KERNELS_AVX512_INTRINSICS_H_

#if defined(BATON_AVX512_INTRINSICS)
#include BATON_AVX512_INTRINSICS
#else
#include <immintrin.h>
// The compiler must have `vector` in a register here: it may not put off or
// repeat what comes before.
#define BATON_IN_REGISTER(vector) asm volatile("" : "+v"(vector))
#endif

#endif  // BATON_WORKER_KERNELS_AVX512_INTRINSICS_H_
