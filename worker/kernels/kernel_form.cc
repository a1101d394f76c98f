#include "worker/kernels/kernel_form.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace baton::worker {
namespace {

#if defined(__x86_64__)
// Linux makes room for the tiles' 8 KB of state only for processes that ask
// (Documentation/arch/x86/xstate.rst); all threads may use them afterwards.
bool TilesGranted() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

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
  static const bool tiles = __builtin_cpu_supports("amx-tile") &&
                            __builtin_cpu_supports("amx-int8") &&
                            TilesGranted();
  return tiles ? KernelForm::kAmx : KernelForm::kAvx512Vnni;
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
    case KernelForm::kAmx:
      return "amx";
  }
  return "unknown";
}

}  // namespace baton::worker
