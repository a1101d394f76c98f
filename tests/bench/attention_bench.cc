// Paged attention alone, on one thread: the last `rows` rows of a sequence of
// `context` positions, one layer at a time, over a cache of many layers.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "worker/kernels/attention/paged_attention.h"
#include "worker/kernels/half.h"

namespace baton::worker {
namespace {

constexpr size_t kCacheBytes = size_t{128} << 20;

void BM_Attention(benchmark::State& state) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  const auto context = static_cast<uint32_t>(state.range(1));
  CacheShape shape;
  shape.heads = static_cast<uint32_t>(state.range(2));
  shape.kv_heads = static_cast<uint32_t>(state.range(3));
  shape.head_dim = static_cast<uint32_t>(state.range(4));
  const uint32_t blocks = (context + kBlockTokens - 1) / kBlockTokens;
  shape.layers = 1;
  shape.layers = static_cast<uint32_t>(
      std::max(size_t{1}, kCacheBytes / (blocks * shape.ContentBytes())));
  shape.block_bytes = shape.ContentBytes();

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> some(4099);
  for (uint16_t& half : some) half = FloatToHalf(normal(random));
  std::vector<uint16_t> arena(blocks * shape.block_bytes / sizeof(uint16_t));
  for (size_t i = 0; i < arena.size(); ++i) arena[i] = some[i % some.size()];
  shape.arena = reinterpret_cast<std::byte*>(arena.data());
  std::vector<uint32_t> table(blocks);
  for (uint32_t i = 0; i < blocks; ++i) table[i] = i;
  const size_t stride = size_t{shape.heads} * shape.head_dim;
  std::vector<float> q(rows * stride), out(q.size());
  for (float& value : q) value = normal(random);

  PagedAttention attention(shape, 1, BestKernelForm());
  const RowRun run{0, rows, context - rows, table};
  attention.SetStep({&run, 1});
  uint32_t layer = 0;
  for (auto _ : state) {
    attention.Attend(layer, q.data(), stride, out.data(), stride, 0, 1);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
    layer = (layer + 1) % shape.layers;
  }
  const double count = static_cast<double>(state.iterations());
  const double keys = context - (rows - 1) / 2.0;  // of a row, in the mean
  const auto rate = [&](const char* name, double value) {
    state.counters[name] =
        benchmark::Counter(value, benchmark::Counter::kIsRate);
  };
  rate("GFLOP/s", count * 4 * keys * static_cast<double>(rows * stride) / 1e9);
  rate("GB/s", count * static_cast<double>(blocks * shape.block_bytes) /
                   shape.layers / 1e9);
}

BENCHMARK(BM_Attention)
    ->Name("attention")
    ->ArgNames({"rows", "context", "heads", "kv_heads", "dim"})
    ->ArgsProduct({{1, 4, 256}, {512, 4096}, {9}, {3}, {64}})
    ->ArgsProduct({{1, 4, 256}, {4096}, {32}, {8}, {128}})
    ->ArgsProduct({{1, 4, 256}, {4096}, {24}, {4}, {256}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace baton::worker
