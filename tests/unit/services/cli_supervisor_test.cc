#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "services/base/clock.h"
#include "services/cli/cluster/configuration_check.h"
#include "services/cli/cluster/supervisor.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() {
    std::string path = testing::TempDir() + "/supervisor-XXXXXX";
    folder_ = mkdtemp(path.data());
    options_.log_dir = folder_;
    options_.state_file = folder_ + "/state.json";
    options_.restart.first_delay = absl::Milliseconds(5);
    options_.drain_timeout = absl::Seconds(20);
    options_.report = [this](const std::string& line) {
      reports_.append(line + "\n");
    };
  }
  ~SupervisorTest() override { std::filesystem::remove_all(folder_); }

  ProcessSpec Fake(const std::string& name, const std::string& role,
                   int drain_rank, std::vector<std::string> flags = {}) {
    ProcessSpec spec;
    spec.name = name;
    spec.role = role;
    spec.binary = BATON_FAKE_PROCESS;
    spec.drain_rank = drain_rank;
    spec.arguments = std::move(flags);
    spec.arguments.push_back("--name=" + name);
    spec.arguments.push_back("--log=" + folder_ + "/events");
    return spec;
  }

  std::vector<std::string> Events() {
    std::ifstream file(folder_ + "/events");
    std::stringstream text;
    text << file.rdbuf();
    return absl::StrSplit(text.str(), '\n', absl::SkipEmpty());
  }

  // Watches until the process runs again after `restarts`.
  ProcessView AwaitRestart(Supervisor* supervisor, const std::string& role,
                           uint32_t restarts) {
    while (supervisor->Watch(absl::Milliseconds(5))) {
      const ClusterState state = supervisor->State();
      const ProcessView* process = state.Find(role);
      if (process->restarts >= restarts && process->pid != 0) return *process;
    }
    return {};
  }

  Signals signals_;
  SystemClock clock_;
  std::string folder_;
  std::string reports_;
  Supervisor::Options options_;
};

TEST_F(SupervisorTest, LearnsTheAddressesAndWritesThemIntoTheStateFile) {
  Supervisor supervisor(options_, &signals_, &clock_);
  ASSERT_TRUE(supervisor
                  .StartGroup({Fake("decode-0", "decode", 2),
                               Fake("gateway", "gateway", 0)})
                  .ok());
  const auto state = ReadStateFile(options_.state_file);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->supervisor_pid, getpid());
  EXPECT_FALSE(state->ready);
  for (const char* role : {"gateway", "decode"}) {
    const ProcessView* process = state->Find(role);
    ASSERT_NE(process, nullptr);
    EXPECT_GT(process->pid, 0);
    EXPECT_FALSE(process->grpc.ends_with(":0")) << process->grpc;
    EXPECT_TRUE(process->grpc.starts_with("127.0.0.1:")) << process->grpc;
  }
  supervisor.SetReady();
  EXPECT_TRUE(ReadStateFile(options_.state_file)->ready);
  supervisor.Drain();
  EXPECT_FALSE(std::filesystem::exists(options_.state_file));
  EXPECT_FALSE(supervisor.had_faults());
}

TEST_F(SupervisorTest, TheStateFileIsNeverReadyOnceTheDrainHasBegun) {
  // Each line of the drain is a moment in it.
  std::vector<bool> ready;
  options_.report = [&](const std::string&) {
    ready.push_back(ReadStateFile(options_.state_file)->ready);
  };
  Supervisor supervisor(options_, &signals_, &clock_);
  ASSERT_TRUE(supervisor
                  .StartGroup({Fake("gateway", "gateway", 0),
                               Fake("decode-0", "decode", 1)})
                  .ok());
  supervisor.SetReady();
  supervisor.Drain();
  EXPECT_THAT(ready, ElementsAre(false, false));
}

TEST_F(SupervisorTest, TheStateFileGoesWithASupervisorThatFails) {
  {
    Supervisor supervisor(options_, &signals_, &clock_);
    ASSERT_TRUE(supervisor.StartGroup({Fake("gateway", "gateway", 0)}).ok());
    EXPECT_FALSE(
        supervisor.StartGroup({Fake("decode-0", "decode", 1, {"--exit=1"})})
            .ok());
    EXPECT_TRUE(supervisor.had_faults());
    EXPECT_TRUE(std::filesystem::exists(options_.state_file));
  }
  EXPECT_FALSE(std::filesystem::exists(options_.state_file));
}

TEST_F(SupervisorTest, StartsAKilledProcessAgainAtTheSameAddresses) {
  Supervisor supervisor(options_, &signals_, &clock_);
  ASSERT_TRUE(supervisor.StartGroup({Fake("kvstore", "kvstore", 0)}).ok());
  const ProcessView before = *supervisor.State().Find("kvstore");
  supervisor.SetArguments("kvstore",
                          {"--name=changed", "--log=" + folder_ + "/events"});
  ASSERT_EQ(kill(before.pid, SIGKILL), 0);
  const ProcessView after = AwaitRestart(&supervisor, "kvstore", 1);
  EXPECT_NE(after.pid, before.pid);
  EXPECT_EQ(after.grpc, before.grpc);
  EXPECT_EQ(after.http, before.http);
  EXPECT_EQ(after.restarts, 1u);
  EXPECT_THAT(reports_, HasSubstr("kvstore ended with signal 9; starting it "
                                  "again in 5ms"));
  while (!absl::StrContains(reports_, "kvstore is back")) {
    ASSERT_TRUE(supervisor.Watch(absl::Milliseconds(5)));
  }
  EXPECT_THAT(Events(), ElementsAre("kvstore start", "changed start"));
  supervisor.Drain();
  EXPECT_TRUE(supervisor.had_faults());
}

TEST_F(SupervisorTest, WaitsLongerAfterEachDeath) {
  Supervisor supervisor(options_, &signals_, &clock_);
  ASSERT_TRUE(supervisor.StartGroup({Fake("decode-0", "decode", 0)}).ok());
  for (uint32_t i = 1; i <= 3; ++i) {
    kill(supervisor.State().Find("decode")->pid, SIGKILL);
    AwaitRestart(&supervisor, "decode", i);
  }
  EXPECT_THAT(reports_, HasSubstr("again in 5ms"));
  EXPECT_THAT(reports_, HasSubstr("again in 10ms"));
  EXPECT_THAT(reports_, HasSubstr("again in 20ms"));
  supervisor.Drain();
}

TEST_F(SupervisorTest, AProcessThatNeverListenedIsAnErrorWithTheEndOfItsLog) {
  Supervisor supervisor(options_, &signals_, &clock_);
  const absl::Status status = supervisor.StartGroup(
      {Fake("decode-0", "decode", 0, {"--say=no such model", "--exit=78"})});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("decode-0 did not start: it ended with exit code 78\n"
                        "no such model"));
  EXPECT_EQ(supervisor.State().Find("decode")->restarts, 0u);
}

TEST_F(SupervisorTest, AMissingBinaryIsAnError) {
  Supervisor supervisor(options_, &signals_, &clock_);
  ProcessSpec spec = Fake("gateway", "gateway", 0);
  spec.binary = folder_ + "/missing";
  const absl::Status status = supervisor.StartGroup({spec});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/missing"));
}

TEST_F(SupervisorTest, DrainsRankByRank) {
  Supervisor supervisor(options_, &signals_, &clock_);
  for (const auto& spec :
       {Fake("kvstore", "kvstore", 3), Fake("decode-0", "decode", 2),
        Fake("gateway", "gateway", 0), Fake("prefill-0", "prefill", 1)}) {
    ASSERT_TRUE(supervisor.StartGroup({spec}).ok());
  }
  supervisor.Drain();
  EXPECT_THAT(Events(),
              ElementsAre("kvstore start", "decode-0 start", "gateway start",
                          "prefill-0 start", "gateway term", "prefill-0 term",
                          "decode-0 term", "kvstore term"));
}

TEST_F(SupervisorTest, KillsWhatIgnoresTheDrain) {
  options_.drain_timeout = absl::Milliseconds(30);
  Supervisor supervisor(options_, &signals_, &clock_);
  ASSERT_TRUE(
      supervisor.StartGroup({Fake("decode-0", "decode", 0, {"--ignore-term"})})
          .ok());
  const pid_t pid = supervisor.State().Find("decode")->pid;
  supervisor.Drain();
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_THAT(reports_, HasSubstr("did not end in time"));
  EXPECT_TRUE(supervisor.had_faults());
}

TEST_F(SupervisorTest, AProgramIsAskedAboutItsConfigurationFirst) {
  EXPECT_TRUE(
      CheckConfiguration(Fake("gateway", "gateway", 0, {"--exit=0"})).ok());
  const absl::Status refused = CheckConfiguration(
      Fake("gateway", "gateway", 0, {"--say=not loopback", "--exit=78"}));
  EXPECT_EQ(refused, absl::InvalidArgumentError("not loopback"));
  // Neither is a fault of the configuration.
  EXPECT_TRUE(absl::IsUnavailable(
      CheckConfiguration(Fake("gateway", "gateway", 0, {"--exit=1"}))));
  ProcessSpec missing = Fake("gateway", "gateway", 0);
  missing.binary = folder_ + "/missing";
  EXPECT_TRUE(absl::IsNotFound(CheckConfiguration(missing)));
  // It serves instead of checking: its end is not waited for.
  EXPECT_TRUE(absl::IsDeadlineExceeded(CheckConfiguration(
      Fake("gateway", "gateway", 0), absl::Milliseconds(50))));
}

TEST_F(SupervisorTest, ASignalEndsTheWatch) {
  Supervisor supervisor(options_, &signals_, &clock_);
  ASSERT_TRUE(supervisor.StartGroup({Fake("gateway", "gateway", 0)}).ok());
  kill(getpid(), SIGTERM);
  EXPECT_FALSE(supervisor.Watch(absl::Hours(1)));
  EXPECT_EQ(supervisor.State().Find("gateway")->restarts, 0u);
  supervisor.Drain();
}

TEST_F(SupervisorTest, TheDestructorLeavesNothingRunning) {
  pid_t pid = 0;
  {
    Supervisor supervisor(options_, &signals_, &clock_);
    ASSERT_TRUE(supervisor.StartGroup({Fake("gateway", "gateway", 0)}).ok());
    pid = supervisor.State().Find("gateway")->pid;
  }
  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace
}  // namespace baton::cli
