// Compiled with AVX2, FMA and F16C; entered only where CPUID reports them.
#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/attention_kernel.h"
#include "worker/kernels/lanes_avx2.h"
// After the intrinsics.
#include "worker/kernels/attention/transpose_x86.h"

namespace baton::worker {

const AttentionForms kAvx2Attention = BATON_ATTENTION_FORMS(Avx2Lanes);

}  // namespace baton::worker
