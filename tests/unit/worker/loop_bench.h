// A DeviceLoop over the engine tests' bench, driven step by step.
#ifndef BATON_TESTS_UNIT_WORKER_LOOP_BENCH_H_
#define BATON_TESTS_UNIT_WORKER_LOOP_BENCH_H_

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/unit/worker/engine_bench.h"
#include "worker/engine/device_loop.h"

namespace baton::worker {

struct LoopBench : EngineBench {
  explicit LoopBench(uint32_t blocks = 64) : EngineBench(blocks) {}

  DeviceLoop& Loop() {
    if (loop == nullptr) {
      metrics = std::make_unique<EngineMetrics>(
          registry.get(), options.model_name, options.kv_dtype, *pool, drafter);
      loop = std::make_unique<DeviceLoop>(options, &forward, pool.get(), &clock,
                                          metrics.get(), drafter);
    }
    return *loop;
  }

  std::shared_ptr<RecordingObserver> Add(SequenceSpec spec,
                                         bool keep_blocks = false) {
    auto observer = std::make_shared<RecordingObserver>(keep_blocks);
    CommitRules rules(spec.stop, options.eos_tokens, kContext);
    Loop().Add(std::make_unique<LiveSequence>(SequenceId(++last_id),
                                              std::move(spec), observer, rules,
                                              pool.get(), clock.Monotonic()));
    return observer;
  }

  void Drain() {
    for (int steps = 0; steps < 100000; ++steps) {
      if (Loop().Step() == StepOutcome::kIdle) return;
    }
    FAIL() << "the loop does not come to an end";
  }

  void ExpectNothingHeld() const {
    const BlockPoolStats stats = pool->Stats();
    EXPECT_EQ(stats.held, 0u);
    EXPECT_EQ(stats.cached + stats.free, stats.total);
  }

  std::unique_ptr<EngineMetrics> metrics;
  std::unique_ptr<DeviceLoop> loop;
  uint64_t last_id = 0;
  Drafter* drafter = nullptr;  // set before the first Add
};

}  // namespace baton::worker

#endif  // BATON_TESTS_UNIT_WORKER_LOOP_BENCH_H_
