#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "gateway/registry/worker_poller.h"
#include "gateway/registry/worker_registry.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/manual_clock.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

WorkerFacts Facts(uint64_t epoch, const std::string& layout = "layout",
                  const std::string& model = "model") {
  WorkerFacts facts;
  facts.role = WorkerRole::kDecode;
  facts.epoch = Epoch(epoch);
  facts.model_digest = model;
  facts.layout_fingerprint = layout;
  facts.numerics_id = "numerics";
  facts.max_sequences = 4;
  return facts;
}

class WorkerRegistryTest : public ::testing::Test {
 protected:
  void Report(const std::string& address, const WorkerFacts& facts) {
    registry_.OnInfo(address, facts);
    registry_.OnLoad(address, {}, true);
  }
  WorkerSnapshot Worker(const std::string& id) {
    for (const WorkerSnapshot& worker : registry_.Snapshot()->workers) {
      if (worker.id == WorkerId(id)) return worker;
    }
    ADD_FAILURE() << "no worker " << id;
    return {};
  }

  ManualClock clock_;
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("test");
  WorkerRegistry registry_{{}, &clock_, metrics_.get()};
};

TEST_F(WorkerRegistryTest, StaticWorkerBecomesReadyWithInfoAndHealth) {
  registry_.AddStatic("a:1");
  EXPECT_EQ(Worker("a:1").state, "connecting");
  EXPECT_TRUE(registry_.NeedsInfo("a:1"));
  registry_.OnInfo("a:1", Facts(7));
  EXPECT_EQ(Worker("a:1").state, "connecting");
  registry_.OnLoad("a:1", {}, false);
  EXPECT_EQ(Worker("a:1").state, "not serving");
  registry_.OnLoad("a:1", {2, 1, 100, 30}, true);
  const WorkerSnapshot worker = Worker("a:1");
  EXPECT_TRUE(worker.ready);
  EXPECT_EQ(worker.epoch, Epoch(7));
  EXPECT_EQ(worker.running, 2u);
  EXPECT_EQ(worker.waiting, 1u);
  EXPECT_EQ(worker.kv_blocks_used, 30u);
  EXPECT_TRUE(registry_.CanServe());
  EXPECT_THAT(metrics_->Exposition(),
              HasSubstr("baton_worker_up{phase=\"decode\",worker=\"a:1\"} 1"));
}

TEST_F(WorkerRegistryTest, LoadingWorkerHasNoIdentityAndIsAskedAgain) {
  registry_.AddStatic("a:1");
  registry_.AddStatic("b:1");
  Report("a:1", Facts(1, "", ""));
  EXPECT_EQ(Worker("a:1").state, "loading");
  EXPECT_TRUE(registry_.NeedsInfo("a:1"));
  Report("b:1", Facts(2));
  Report("a:1", Facts(1));
  EXPECT_TRUE(Worker("a:1").ready);
  EXPECT_TRUE(Worker("b:1").ready);
}

TEST_F(WorkerRegistryTest, RefusedConnectionMakesItUnreachableAtOnce) {
  registry_.AddStatic("a:1");
  Report("a:1", Facts(7));
  registry_.OnProbeFailed("a:1", absl::UnavailableError("refused"));
  EXPECT_FALSE(Worker("a:1").ready);
  EXPECT_EQ(Worker("a:1").state, "unreachable");
  EXPECT_TRUE(registry_.NeedsInfo("a:1"));
  EXPECT_FALSE(registry_.CanServe());
  EXPECT_THAT(metrics_->Exposition(),
              HasSubstr("baton_worker_up{phase=\"decode\",worker=\"a:1\"} 0"));
}

TEST_F(WorkerRegistryTest, OneSlowProbeIsForgivenTwoAreNot) {
  registry_.AddStatic("a:1");
  Report("a:1", Facts(7));
  registry_.OnProbeFailed("a:1", absl::DeadlineExceededError("slow"));
  EXPECT_TRUE(Worker("a:1").ready);
  registry_.OnLoad("a:1", {}, true);
  registry_.OnProbeFailed("a:1", absl::DeadlineExceededError("slow"));
  EXPECT_TRUE(Worker("a:1").ready) << "a good probe between them";
  registry_.OnProbeFailed("a:1", absl::DeadlineExceededError("slow"));
  EXPECT_EQ(Worker("a:1").state, "unreachable");
}

TEST_F(WorkerRegistryTest, RestartGivesTheNewEpoch) {
  registry_.AddStatic("a:1");
  Report("a:1", Facts(7));
  registry_.OnProbeFailed("a:1", absl::UnavailableError("gone"));
  Report("a:1", Facts(8));
  EXPECT_TRUE(Worker("a:1").ready);
  EXPECT_EQ(Worker("a:1").epoch, Epoch(8));
}

TEST_F(WorkerRegistryTest, OtherModelOrLayoutIsKeptOut) {
  for (const char* address : {"a:1", "b:1", "c:1"}) {
    registry_.AddStatic(address);
  }
  Report("a:1", Facts(1));
  Report("b:1", Facts(2, "other"));
  Report("c:1", Facts(3, "layout", "other"));
  EXPECT_TRUE(Worker("a:1").ready);
  EXPECT_EQ(Worker("b:1").state, "layout differs");
  EXPECT_EQ(Worker("c:1").state, "model differs");
  EXPECT_FALSE(registry_.BelongsToCluster("c:1"));
}

TEST_F(WorkerRegistryTest, IdentityMovesOnWhenNobodyHoldsItAnyMore) {
  registry_.AddStatic("a:1");
  registry_.AddStatic("b:1");
  Report("a:1", Facts(1));
  Report("b:1", Facts(2, "new", "new"));
  EXPECT_FALSE(Worker("b:1").ready);
  registry_.OnProbeFailed("a:1", absl::UnavailableError("gone"));
  Report("b:1", Facts(2, "new", "new"));
  EXPECT_TRUE(Worker("b:1").ready);
  Report("a:1", Facts(3));
  EXPECT_EQ(Worker("a:1").state, "model differs");
}

TEST_F(WorkerRegistryTest, ReportedFailureCountsOnlyForThatEpoch) {
  registry_.AddStatic("a:1");
  Report("a:1", Facts(8));
  registry_.ReportFailure(WorkerId("a:1"), Epoch(7));
  EXPECT_TRUE(Worker("a:1").ready);
  registry_.ReportFailure(WorkerId("a:1"), Epoch(8));
  EXPECT_FALSE(Worker("a:1").ready);
  Report("a:1", Facts(8));
  EXPECT_TRUE(Worker("a:1").ready) << "the next probe found it alive";
}

TEST_F(WorkerRegistryTest, HeartbeatsKeepARegisteredWorker) {
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "a:1", Epoch(1)).ok());
  clock_.Advance(absl::Seconds(10));
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "a:1", Epoch(1)).ok());
  clock_.Advance(absl::Seconds(10));
  EXPECT_THAT(registry_.Addresses(), ElementsAre("a:1"));
  clock_.Advance(absl::Seconds(6));
  EXPECT_THAT(registry_.Addresses(), ElementsAre());
  EXPECT_TRUE(registry_.Snapshot()->workers.empty());
}

TEST_F(WorkerRegistryTest, RegistrationNeedsAnIdThatIsFree) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      registry_.Register(WorkerId(""), "a:1", Epoch(1))));
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "a:1", Epoch(1)).ok());
  Report("a:1", Facts(1));
  EXPECT_TRUE(absl::IsInvalidArgument(
      registry_.Register(WorkerId("w"), "b:1", Epoch(2))));
}

TEST_F(WorkerRegistryTest, WorkerMayComeBackAtAnotherAddress) {
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "a:1", Epoch(1)).ok());
  Report("a:1", Facts(1));
  registry_.OnProbeFailed("a:1", absl::UnavailableError("gone"));
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "b:1", Epoch(2)).ok());
  Report("b:1", Facts(2));
  EXPECT_EQ(registry_.Snapshot()->workers.size(), 1u);
  EXPECT_EQ(Worker("w").address, "b:1");
  EXPECT_THAT(metrics_->Exposition(),
              HasSubstr("baton_worker_up{phase=\"decode\",worker=\"w\"} 1"));
}

TEST_F(WorkerRegistryTest, InflightNeverFallsBelowZero) {
  registry_.AddStatic("a:1");
  registry_.AddInflight(WorkerId("a:1"), 1);
  EXPECT_EQ(Worker("a:1").inflight, 1u);
  registry_.AddInflight(WorkerId("a:1"), -1);
  registry_.AddInflight(WorkerId("a:1"), -1);
  EXPECT_EQ(Worker("a:1").inflight, 0u);
}

TEST_F(WorkerRegistryTest, AnOldSnapshotStaysAsItWas) {
  registry_.AddStatic("a:1");
  const auto before = registry_.Snapshot();
  Report("a:1", Facts(1));
  EXPECT_FALSE(before->workers[0].ready);
  EXPECT_LT(before->version, registry_.Snapshot()->version);
}

// Answers when the test says so.
class SteppedProbe final : public WorkerProbe {
 public:
  struct Call {
    std::string address;
    bool want_facts;
    std::function<void(ProbeResult)> done;
  };
  void Probe(const std::string& address, bool want_facts, absl::Duration,
             std::function<void(ProbeResult)> done) override {
    calls.push_back({address, want_facts, std::move(done)});
  }
  std::deque<Call> calls;
};

class NoExecutor final : public Executor {
 public:
  bool Post(std::function<void()>) override { return false; }
  bool PostAfter(absl::Duration, std::function<void()>) override {
    return false;
  }
};

TEST_F(WorkerRegistryTest, PollerAsksForFactsUntilItHasThem) {
  registry_.AddStatic("a:1");
  SteppedProbe probe;
  NoExecutor executor;
  std::vector<std::string> seen;
  auto poller =
      WorkerPoller::Create({}, &registry_, &probe, &executor,
                           [&](const std::string& address, const WorkerFacts&) {
                             seen.push_back(address);
                           });
  poller->PollOnce();
  poller->PollOnce();
  ASSERT_EQ(probe.calls.size(), 1u) << "one probe at a time";
  EXPECT_TRUE(probe.calls[0].want_facts);
  probe.calls[0].done({absl::OkStatus(), Facts(1), {}, true});
  EXPECT_THAT(seen, ElementsAre("a:1"));
  EXPECT_TRUE(Worker("a:1").ready);
  poller->PollOnce();
  ASSERT_EQ(probe.calls.size(), 2u);
  EXPECT_FALSE(probe.calls[1].want_facts);
  probe.calls[1].done(
      {absl::UnavailableError("gone"), std::nullopt, {}, false});
  EXPECT_FALSE(Worker("a:1").ready);
  poller->PollOnce();
  EXPECT_TRUE(probe.calls[2].want_facts);
  poller->Stop();
  probe.calls[2].done({absl::OkStatus(), Facts(1), {}, true});
  EXPECT_FALSE(Worker("a:1").ready) << "stopped";
}

}  // namespace
}  // namespace baton::gateway
