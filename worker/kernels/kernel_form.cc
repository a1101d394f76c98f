#include "worker/kernels/kernel_form.h"

namespace baton::worker {

KernelForm BestKernelForm() {
#if defined(__x86_64__)
  // Each asks CPUID and, for the registers' state, XGETBV.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return KernelForm::kScalar;
  }
  if (!__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return KernelForm::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vnni")) {
    return KernelForm::kAvx512;
  }
  return KernelForm::kAvx512Vnni;
#else
  return KernelForm::kScalar;
#endif
}

const char* KernelFormName(KernelForm form) {
  switch (form) {
    case KernelForm::kScalar:
      return "scalar";
    case KernelForm::kAvx2:
      return "avx2";
    case KernelForm::kAvx512:
      return "avx512";
    case KernelForm::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

}  // namespace baton::worker
