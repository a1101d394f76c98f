#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "absl/strings/str_cat.h"
#include "gateway/registry/worker_address.h"
#include "gateway/registry/worker_poller.h"
#include "gateway/registry/worker_registry.h"
#include "services/base/error_details.h"
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

TEST(WorkerAddressTest, TakesWhatAWorkerListensAt) {
  for (const char* address :
       {"127.0.0.1:9500", "worker-0:1", "a.b-c_d.example:65535", "[::1]:9500",
        "[fe80::1]:80", "dns:///worker.svc:9500", "dns:///[::1]:9500"}) {
    EXPECT_TRUE(CheckWorkerAddress(address).ok()) << address;
  }
}

TEST(WorkerAddressTest, RefusesEverythingElseByField) {
  for (const std::string& address : {std::string(),
                                     std::string("x"),
                                     std::string("x:"),
                                     std::string(":1"),
                                     std::string("x:0"),
                                     std::string("x:65536"),
                                     std::string("x:+1"),
                                     std::string("x: 1"),
                                     std::string("x:1 "),
                                     std::string("x:99999999999"),
                                     std::string("::1:9500"),
                                     std::string("[::1]"),
                                     std::string("[x]:1"),
                                     std::string("[::1:1"),
                                     std::string("a b:1"),
                                     std::string("a\n:1"),
                                     std::string("unix:/tmp/x"),
                                     std::string("unix:x:1"),
                                     std::string("ipv4:1.2.3.4:5"),
                                     std::string("dns://8.8.8.8/x:1"),
                                     std::string("dns:///"),
                                     std::string("http://x:1"),
                                     std::string("x,y:1"),
                                     std::string("x\0y:1", 5),
                                     std::string(254, 'x') + ":1",
                                     std::string(100000, 'x') + ":1",
                                     "x:" + std::string(100000, '1')}) {
    const absl::Status status = CheckWorkerAddress(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address.substr(0, 50);
    EXPECT_EQ(ErrorField(status), "address");
    EXPECT_LT(status.message().size(), 200u);
  }
  for (const std::string& id : {std::string(), std::string("a b"),
                                std::string("a\n"), std::string(129, 'x')}) {
    EXPECT_EQ(ErrorField(CheckWorkerId(id)), "worker_id");
  }
  EXPECT_TRUE(CheckWorkerId(std::string(128, 'x')).ok());
}

TEST(WorkerAddressTest, KnowsTheListenersOwnNames) {
  for (const char* same : {"127.0.0.1:7", "localhost:7", "LOCALHOST:7",
                           "[::1]:7", "0.0.0.0:7", "dns:///localhost:7"}) {
    EXPECT_TRUE(IsOwnAddress(same, "127.0.0.1:7")) << same;
    EXPECT_TRUE(IsOwnAddress(same, "0.0.0.0:7")) << same;
    EXPECT_FALSE(IsOwnAddress(same, "127.0.0.1:8")) << same;
    EXPECT_FALSE(IsOwnAddress(same, "10.0.0.5:7")) << same;
    EXPECT_FALSE(IsOwnAddress(same, "")) << same;
  }
  EXPECT_TRUE(IsOwnAddress("10.0.0.5:7", "10.0.0.5:7"));
  EXPECT_FALSE(IsOwnAddress("10.0.0.6:7", "10.0.0.5:7"));
}

TEST_F(WorkerRegistryTest, RegistrationNeedsAWellFormedForeignAddress) {
  registry_.SetOwnAddress("127.0.0.1:9300");
  for (const char* address : {"x", "unix:/tmp/x", "localhost:9300"}) {
    const absl::Status status =
        registry_.Register(WorkerId("w"), address, Epoch(1));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_EQ(ErrorField(status), "address");
  }
  EXPECT_TRUE(registry_.Snapshot()->workers.empty());
  EXPECT_TRUE(
      registry_.Register(WorkerId("w"), "localhost:9301", Epoch(1)).ok());
}

// A full table of made-up workers, then the real ones come.
TEST_F(WorkerRegistryTest, MadeUpWorkersMakeRoomForRealOnes) {
  WorkerRegistry registry({absl::Seconds(15), 2, 8}, &clock_, metrics_.get());
  registry.AddStatic("static:1");
  ASSERT_TRUE(registry.Register(WorkerId("old"), "old:1", Epoch(1)).ok());
  registry.OnLoad("old:1", {}, true);
  registry.OnProbeFailed("old:1", absl::UnavailableError("for a moment"));
  for (int i = 0; i < 1000; ++i) {
    const std::string name = absl::StrCat("made-up-", i);
    clock_.Advance(absl::Milliseconds(1));
    ASSERT_TRUE(registry.Register(WorkerId(name), name + ":1", Epoch(1)).ok());
    ASSERT_LE(registry.Snapshot()->workers.size(), 8u);
  }
  // One whose probe has failed goes before those that were not asked yet.
  ASSERT_TRUE(registry.Register(WorkerId("new"), "new:1", Epoch(1)).ok());
  clock_.Advance(absl::Milliseconds(1));
  registry.OnProbeFailed("made-up-999:1", absl::UnavailableError("nobody"));
  ASSERT_TRUE(registry.Register(WorkerId("more"), "more:1", Epoch(1)).ok());
  std::set<std::string> left;
  for (const std::string& address : registry.Addresses()) left.insert(address);
  EXPECT_EQ(left.size(), 8u);
  for (const char* kept : {"static:1", "old:1", "new:1", "more:1"}) {
    EXPECT_EQ(left.count(kept), 1u) << kept;
  }
  EXPECT_EQ(left.count("made-up-999:1"), 0u);
}

TEST_F(WorkerRegistryTest, TableOfWorkersThatAnsweredIsFull) {
  WorkerRegistry registry({absl::Seconds(15), 2, 2}, &clock_, metrics_.get());
  for (const char* name : {"a", "b"}) {
    const std::string address = absl::StrCat(name, ":1");
    ASSERT_TRUE(registry.Register(WorkerId(name), address, Epoch(1)).ok());
    registry.OnLoad(address, {}, true);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      registry.Register(WorkerId("c"), "c:1", Epoch(1))));
  EXPECT_TRUE(registry.Register(WorkerId("a"), "a:1", Epoch(1)).ok());
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

TEST_F(WorkerRegistryTest, StaticWorkerIsForgottenForNobody) {
  registry_.AddStatic("a:1");
  EXPECT_EQ(ErrorField(registry_.Register(WorkerId("a:1"), "b:1", Epoch(1))),
            "worker_id");
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "a:1", Epoch(1)).ok());
  ASSERT_TRUE(registry_.Register(WorkerId("w"), "b:1", Epoch(2)).ok());
  EXPECT_THAT(registry_.Addresses(), ElementsAre("a:1", "b:1"));
  EXPECT_EQ(Worker("a:1").address, "a:1");
  EXPECT_EQ(Worker("w").address, "b:1");
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
  bool stopped() const override { return true; }
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
