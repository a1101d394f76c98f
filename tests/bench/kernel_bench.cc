// The matrix products alone, on one thread (attention: attention_bench.cc): for
// each format and number of rows, the weights read and the operations done a
// second, and their share of what the machine reaches at best (machine_peak.h).
//
//   baton-kernel-bench --benchmark_filter='Q4_K/'
//
// The matrices of one format are together larger than the caches, as a model's
// are, and are taken in turn.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/machine_peak.h"
#include "worker/kernels/half.h"
#include "worker/kernels/matmul/matmul.h"

namespace baton::worker {
namespace {

constexpr size_t kColumns = 2048, kOutputs = 2048;
constexpr size_t kTotalBytes = size_t{192} << 20;

constexpr const char* kNames[kWeightFormats] = {
    "Q4_0", "Q4_1", "Q5_0",   "Q5_1", "Q8_0", "IQ4_NL", "Q4_K",
    "Q5_K", "Q6_K", "IQ4_XS", "F32",  "F16",  "BF16"};

// Small, finite scales; otherwise random. No kernel's time depends on values.
std::vector<uint8_t> RandomMatrix(WeightFormat format, size_t bytes,
                                  std::mt19937* random) {
  std::vector<uint8_t> matrix(bytes);
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    const uint32_t value = static_cast<uint32_t>((*random)()) & 0x0fff0fff;
    std::memcpy(&matrix[i], &value, sizeof(value));
  }
  if (format == kF32) {
    for (size_t i = 3; i < bytes; i += 4) matrix[i] = 0x3f;
  }
  return matrix;
}

void BM_MatMul(benchmark::State& state, WeightFormat format, size_t rows) {
  const MatMulForms& forms = MatMulFormsOf(BestKernelForm());
  const size_t row_bytes = kColumns / BlockValues(format) * BlockBytes(format);
  const size_t matrix_bytes = row_bytes * kOutputs;
  const size_t matrices = kTotalBytes / matrix_bytes;
  std::mt19937 random(1);
  const std::vector<uint8_t> weights =
      RandomMatrix(format, matrices * matrix_bytes, &random);
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * kColumns);
  for (float& value : x) value = normal(random);
  const ActivationFormat activation = ActivationOf(format);
  std::vector<uint8_t> rounded;
  const uint8_t* activations = reinterpret_cast<const uint8_t*>(x.data());
  if (activation != ActivationFormat::kFloats) {
    rounded.resize(rows * ActivationRowBytes(activation, kColumns));
    QuantiseRows(forms, activation, x.data(), kColumns, kColumns, rows,
                 rounded.data(), 0, 1);
    activations = rounded.data();
  }
  std::vector<float> out(rows * kOutputs);
  size_t next = 0;
  for (auto _ : state) {
    const WeightMatrix matrix{format, weights.data() + next * matrix_bytes,
                              row_bytes, kColumns, kOutputs};
    Multiply(forms, matrix, activations,
             ActivationRowBytes(activation, kColumns), rows, out.data(),
             kOutputs, 0, 1);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
    next = (next + 1) % matrices;
  }
  static const double peak_bytes = PeakReadBandwidth();
  static const double peak_operations = PeakInt8Operations();
  const double count = static_cast<double>(state.iterations());
  const double bytes = count * static_cast<double>(matrix_bytes);
  const double operations =
      count * 2.0 * static_cast<double>(rows * kColumns * kOutputs);
  const auto rate = [&](const char* name, double value) {
    state.counters[name] =
        benchmark::Counter(value, benchmark::Counter::kIsRate);
  };
  rate("GB/s", bytes / 1e9);
  rate("GOP/s", operations / 1e9);
  if (peak_bytes > 0) rate("of_read_peak", bytes / peak_bytes);
  if (peak_operations > 0 && activation != ActivationFormat::kFloats) {
    rate("of_int8_peak", operations / peak_operations);
  }
}

void RegisterAll() {
  for (size_t format = 0; format < kWeightFormats; ++format) {
    for (const size_t rows : {1, 2, 3, 4, 6, 8, 16, 64, 512}) {
      benchmark::RegisterBenchmark(
          (std::string(kNames[format]) + "/rows:" + std::to_string(rows))
              .c_str(),
          BM_MatMul, static_cast<WeightFormat>(format), rows)
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace
}  // namespace baton::worker

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::printf("kernels: %s; read peak %.1f GB/s, int8 peak %.0f GOP/s\n",
              baton::worker::KernelFormName(baton::worker::BestKernelForm()),
              baton::worker::PeakReadBandwidth() / 1e9,
              baton::worker::PeakInt8Operations() / 1e9);
  baton::worker::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
