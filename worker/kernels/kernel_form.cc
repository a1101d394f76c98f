#include "worker/kernels/kernel_form.h"

namespace baton::worker {

KernelForm BestKernelForm() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return KernelForm::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    return KernelForm::kAvx2;
  }
#endif
  return KernelForm::kScalar;
}

const char* KernelFormName(KernelForm form) {
  switch (form) {
    case KernelForm::kScalar:
      return "scalar";
    case KernelForm::kAvx2:
      return "avx2";
    case KernelForm::kAvx512:
      return "avx512";
  }
  return "unknown";
}

}  // namespace baton::worker
