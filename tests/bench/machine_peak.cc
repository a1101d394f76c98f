#include "tests/bench/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include "worker/kernels/kernel_form.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace baton::worker {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) double ReadOnce(const uint8_t* bytes,
                                                size_t count) {
  const auto start = Clock::now();
  __m256i sums[4] = {};
  for (size_t i = 0; i + 128 <= count; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(bytes + i + 2048), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(bytes + i + 2112), _MM_HINT_T0);
    for (size_t j = 0; j < 4; ++j) {
      sums[j] = _mm256_xor_si256(
          sums[j], _mm256_loadu_si256(
                       reinterpret_cast<const __m256i*>(bytes + i + 32 * j)));
    }
  }
  asm volatile("" : : "x"(sums[0]), "x"(sums[1]), "x"(sums[2]), "x"(sums[3]));
  return static_cast<double>(count) / Seconds(start);
}

// maddubs and an addition of 16-bit sums: 32 products each.
__attribute__((target("avx2"))) double MultiplyOnce() {
  constexpr int kChains = 12, kRounds = 4'000'000;
  __m256i sums[kChains] = {};
  __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(-5);
  const auto start = Clock::now();
  for (int round = 0; round < kRounds; ++round) {
    asm volatile("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(a, b));
      asm volatile("" : "+x"(sums[i]));
    }
  }
  return 2.0 * 32 * kChains * kRounds / Seconds(start);
}
#endif

template <typename Function>
double BestOf(int tries, const Function& function) {
  double best = 0;
  for (int i = 0; i < tries; ++i) best = std::max(best, function());
  return best;
}

}  // namespace

double PeakReadBandwidth() {
#if defined(__x86_64__)
  if (BestKernelForm() >= KernelForm::kAvx2) {
    constexpr size_t kBytes = size_t{1} << 29;
    const auto bytes = std::make_unique<uint8_t[]>(kBytes + 4096);
    return BestOf(5, [&] { return ReadOnce(bytes.get(), kBytes); });
  }
#endif
  return 0;
}

double PeakInt8Operations() {
#if defined(__x86_64__)
  if (BestKernelForm() >= KernelForm::kAvx2) return BestOf(5, MultiplyOnce);
#endif
  return 0;
}

}  // namespace baton::worker
