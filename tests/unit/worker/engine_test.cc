// The engine's thread and its door: what is refused, cancel, stop.
#include "worker/engine/engine.h"

#include <latch>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/base/error_details.h"
#include "tests/unit/worker/engine_bench.h"

namespace baton::worker {
namespace {

struct ThreadBench : EngineBench {
  explicit ThreadBench(uint32_t blocks = 64) : EngineBench(blocks) {}
  std::unique_ptr<Engine> Start() {
    return Engine::Create(options, &forward, pool.get(), &clock,
                          registry.get());
  }
};

absl::Status SubmitStatus(Engine* engine, SequenceSpec spec) {
  return engine->Submit(std::move(spec), std::make_shared<RecordingObserver>())
      .status();
}

TEST(EngineTest, RunsWhatIsSubmitted) {
  ThreadBench bench;
  auto engine = bench.Start();
  std::vector<std::shared_ptr<RecordingObserver>> observers;
  for (uint64_t i = 0; i < 6; ++i) {
    observers.push_back(std::make_shared<RecordingObserver>());
    ASSERT_TRUE(engine->Submit(Spec(Prompt(20, i)), observers.back()).ok());
  }
  for (uint64_t i = 0; i < 6; ++i) {
    ExpectOutput(Spec(Prompt(20, i)), observers[i]->AwaitFinished());
  }
  // Idle now: it wakes up again.
  auto late = std::make_shared<RecordingObserver>();
  ASSERT_TRUE(engine->Submit(Spec(Prompt(3, 9)), late).ok());
  ExpectOutput(Spec(Prompt(3, 9)), late->AwaitFinished());
  engine->Stop();
  EXPECT_EQ(bench.pool->Stats().held, 0u);
  EXPECT_EQ(engine->Load().running + engine->Load().waiting, 0u);
}

TEST(EngineTest, RefusesBadSequencesAndSaysWhy) {
  ThreadBench bench(20);
  auto engine = bench.Start();
  const auto refused = [&](auto change) {
    SequenceSpec spec = Spec(Prompt(9, 1));
    change(&spec);
    const absl::Status status = SubmitStatus(engine.get(), std::move(spec));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return ErrorField(status) + "/" + ErrorReason(status);
  };
  EXPECT_EQ(refused([](auto* s) { s->tokens.clear(); }), "tokens/");
  EXPECT_EQ(refused([](auto* s) { s->prompt_tokens = 0; }), "tokens/");
  EXPECT_EQ(refused([](auto* s) { s->prompt_tokens = 10; }), "prompt_tokens/");
  EXPECT_EQ(refused([](auto* s) { s->tokens[2] = -1; }), "tokens/");
  EXPECT_EQ(refused([](auto* s) { s->tokens[2] = kVocabulary; }), "tokens/");
  EXPECT_EQ(refused([](auto* s) { s->tokens.resize(kContext, 3); }),
            "tokens/context_length_exceeded");
  EXPECT_EQ(refused([](auto* s) { s->tokens.resize(81, 3); }),
            "tokens/context_length_exceeded");
  EXPECT_EQ(refused([](auto* s) { s->sampling.top_p = 0; }), "top_p/");
  EXPECT_EQ(refused([](auto* s) { s->stop.stop_token_ids = {-3}; }),
            "stop_token_ids/");
  EXPECT_EQ(refused([](auto* s) {
              s->prompt_tokens = 1;
              s->stop.max_tokens = 8;
            }),
            "max_tokens/");
  EXPECT_EQ(refused([](auto* s) { s->restored_tokens = 9; }),
            "restored_tokens/");
  EXPECT_EQ(refused([](auto* s) { s->restored_tokens = 4; }), "restored/");
  EXPECT_EQ(refused([](auto* s) {
              s->restored_tokens = 4;
              s->restored.resize(1);
            }),
            "restored/");
  EXPECT_EQ(engine->Submit(Spec(Prompt(4, 1)), nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(bench.pool->Stats().held, 0u);
}

TEST(EngineTest, ABoundedQueueRefusesWithARetryHint) {
  ThreadBench bench;
  bench.options.max_sequences = 1;
  bench.options.max_waiting = 2;
  std::latch started(1), go(1);
  bool first = true;
  bench.forward.on_run = [&](const StepBatch&) {
    if (!std::exchange(first, false)) return;
    started.count_down();
    go.wait();
  };
  auto engine = bench.Start();
  ASSERT_TRUE(SubmitStatus(engine.get(), Spec(Prompt(4, 1))).ok());
  started.wait();
  // The first still counts as waiting until its step has ended.
  EXPECT_EQ(engine->Load().waiting, 1u);
  ASSERT_TRUE(SubmitStatus(engine.get(), Spec(Prompt(4, 2))).ok());
  const absl::Status full = SubmitStatus(engine.get(), Spec(Prompt(4, 3)));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(full).has_value());
  go.count_down();
  engine->Stop();
  EXPECT_EQ(bench.pool->Stats().held, 0u);
}

TEST(EngineTest, CancelReachesAWaitingAndARunningSequence) {
  ThreadBench bench;
  bench.options.max_sequences = 1;
  auto engine = bench.Start();
  SequenceSpec endless = Spec(Prompt(4, 1), std::nullopt);
  endless.stop.ignore_eos = true;
  auto running = std::make_shared<RecordingObserver>();
  auto waiting = std::make_shared<RecordingObserver>();
  SequenceId running_id;
  std::latch known(1);
  // The observer itself may cancel, from the device thread.
  running->on_tokens = [&] {
    if (running->Get().tokens.size() != 5) return;
    known.wait();
    engine->Cancel(running_id);
  };
  running_id = *engine->Submit(endless, running);
  const SequenceId waiting_id = *engine->Submit(endless, waiting);
  engine->Cancel(waiting_id);
  known.count_down();
  EXPECT_EQ(waiting->AwaitFinished().result->status().code(),
            absl::StatusCode::kCancelled);
  const auto record = running->AwaitFinished();
  EXPECT_EQ(record.result->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(record.tokens.size(), 5u);
  engine->Cancel(running_id);
  engine->Cancel(SequenceId(12345));
  engine->Stop();
  EXPECT_EQ(bench.pool->Stats().held, 0u);
}

TEST(EngineTest, StopCancelsAllAndIsIdempotent) {
  ThreadBench bench;
  // The device thread stands still in its third step until Stop is under way,
  // so that no sequence comes to its own end first.
  std::latch stopping(1);
  int step = 0;
  bench.forward.on_run = [&](const StepBatch&) {
    if (++step == 3) stopping.wait();
  };
  auto engine = bench.Start();
  SequenceSpec endless = Spec(Prompt(4, 1), std::nullopt);
  endless.stop.ignore_eos = true;
  std::vector<std::shared_ptr<RecordingObserver>> observers;
  for (int i = 0; i < 8; ++i) {
    observers.push_back(std::make_shared<RecordingObserver>());
    ASSERT_TRUE(engine->Submit(endless, observers.back()).ok());
  }
  {
    std::jthread first([&] { engine->Stop(); });
    std::jthread second([&] { engine->Stop(); });
    while (SubmitStatus(engine.get(), endless).code() !=
           absl::StatusCode::kUnavailable) {
      std::this_thread::yield();
    }
    stopping.count_down();
  }
  for (const auto& observer : observers) {
    ASSERT_EQ(observer->Get().finished_calls, 1);
    EXPECT_EQ(observer->Get().result->status().code(),
              absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(SubmitStatus(engine.get(), Spec(Prompt(4, 1))).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(bench.pool->Stats().held, 0u);
}

TEST(EngineTest, WakesUpWhenBlocksHeldElsewhereComeBack) {
  ThreadBench bench(6);
  auto engine = bench.Start();
  auto elsewhere = *bench.pool->TryAllocate(5);
  auto observer = std::make_shared<RecordingObserver>();
  ASSERT_TRUE(engine->Submit(Spec(Prompt(12, 1), 3), observer).ok());
  elsewhere.clear();
  ExpectOutput(Spec(Prompt(12, 1), 3), observer->AwaitFinished());
}

TEST(EngineTest, ManyClientsAtOnceEachGetTheirOwnOutput) {
  ThreadBench bench(40);
  auto engine = bench.Start();
  {
    std::vector<std::jthread> clients;
    for (uint64_t client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        std::mt19937_64 random(client);
        for (int i = 0; i < 40; ++i) {
          const SequenceSpec spec = RandomSpec(&random);
          auto observer = std::make_shared<RecordingObserver>();
          auto id = engine->Submit(spec, observer);
          ASSERT_TRUE(id.ok()) << id.status();
          const bool cancel = random() % 3 == 0;
          if (cancel) engine->Cancel(*id);
          const auto record = observer->AwaitFinished();
          if (cancel && !record.result->ok()) {
            EXPECT_EQ(record.result->status().code(),
                      absl::StatusCode::kCancelled);
          } else {
            ExpectOutput(spec, record);
          }
        }
      });
    }
  }
  engine->Stop();
  EXPECT_EQ(bench.pool->Stats().held, 0u);
}

TEST(EngineTest, EverySeriesExistsFromTheStart) {
  ThreadBench bench(40);
  auto engine = bench.Start();
  for (const char* series :
       {"baton_requests_running{model_name=\"fake\"}",
        "baton_requests_waiting{model_name=\"fake\"}",
        "baton_step_duration_seconds_count{model_name=\"fake\",phase="
        "\"mixed\"}",
        "baton_step_tokens_count{model_name=\"fake\",phase=\"decode\"}",
        "baton_generation_tokens_total{model_name=\"fake\"}",
        "baton_inter_token_latency_seconds_count{model_name=\"fake\"}",
        "baton_request_queue_time_seconds_count{model_name=\"fake\"}",
        "baton_request_prefill_time_seconds_count{model_name=\"fake\"}",
        "baton_request_decode_time_seconds_count{model_name=\"fake\"}",
        "baton_kv_cache_usage_ratio{model_name=\"fake\",tier=\"host\"}",
        "baton_kv_cache_evictions_total{model_name=\"fake\",tier=\"host\"}",
        "baton_preemptions_total{model_name=\"fake\"}"}) {
    EXPECT_EQ(bench.Metric(series), 0) << series;
  }
  EXPECT_EQ(bench.Metric("baton_cache_config_info{block_size=\"4\",dtype="
                         "\"f16\",model_name=\"fake\",num_gpu_blocks=\"40\"}"),
            1);
}

}  // namespace
}  // namespace baton::worker
