// The instruction sets that our kernels are written for. All forms of a kernel
// give identical bits.
#ifndef BATON_WORKER_KERNELS_KERNEL_FORM_H_
#define BATON_WORKER_KERNELS_KERNEL_FORM_H_

namespace baton::worker {

// Rises when any kernel changes a bit of any result.
inline constexpr int kKernelRevision = 5;

// Instruction sets, in ascending order: a processor that runs one runs those
// before it. kAvx512 is F, DQ and VL; kAvx512Vnni also BW and VNNI; kAmx also
// AMX's tiles and int8, granted by the kernel.
enum class KernelForm { kScalar, kAvx2, kAvx512, kAvx512Vnni, kAmx };
// The best form that this processor and its operating system (which must save
// the registers) run.
KernelForm BestKernelForm();
const char* KernelFormName(KernelForm form);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_KERNEL_FORM_H_
