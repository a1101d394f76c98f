// AMX intrinsics, for sources that are compiled with AMX: the compiler's, or
// those of the header that BATON_AMX_INTRINSICS names (see
// avx512_intrinsics.h).
#ifndef BATON_WORKER_KERNELS_AMX_INTRINSICS_H_
#define BATON_WORKER_KERNELS_AMX_INTRINSICS_H_

#include "worker/kernels/avx512_intrinsics.h"

#if defined(BATON_AMX_INTRINSICS)
#include BATON_AMX_INTRINSICS
#endif

#endif  // BATON_WORKER_KERNELS_AMX_INTRINSICS_H_
