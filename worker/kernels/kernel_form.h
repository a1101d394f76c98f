// The instruction sets that our kernels are written for. All forms of a kernel
// give identical bits.
#ifndef BATON_WORKER_KERNELS_KERNEL_FORM_H_
#define BATON_WORKER_KERNELS_KERNEL_FORM_H_

namespace baton::worker {

// Rises when any kernel changes a bit of any result.
inline constexpr int kKernelRevision = 4;

// Instruction sets, in ascending order.
enum class KernelForm { kScalar, kAvx2, kAvx512 };
// The best form this processor runs; asked of CPUID once.
KernelForm BestKernelForm();
const char* KernelFormName(KernelForm form);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_KERNEL_FORM_H_
