#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "services/process/cores.h"

namespace baton::process {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> OwnCpus() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// A machine of control groups that a test makes up.
class CoresTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  const std::string root_ =
      ::testing::TempDir() + "cores-" + std::to_string(getpid());
  const uint32_t all_ = static_cast<uint32_t>(OwnCpus().size());
};

TEST_F(CoresTest, WithoutGroupsAreThoseOfTheProcess) {
  EXPECT_EQ(UsableCores(root_), all_);
  Write("/proc/self/cgroup", "nonsense\n0::\n1:cpu\n");
  EXPECT_EQ(UsableCores(root_), all_);
}

// The tightest group on the way up decides; part of a core counts as one.
TEST_F(CoresTest, QuotaOfAnyGroupLimits) {
  Write("/proc/self/cgroup", "0::/pods/pod7/worker\n");
  Write("/sys/fs/cgroup/pods/pod7/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(root_), all_);
  Write("/sys/fs/cgroup/pods/pod7/cpu.max", "50000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1u);
  Write("/sys/fs/cgroup/pods/pod7/cpu.max", "1000000000 100000\n");
  EXPECT_EQ(UsableCores(root_), all_);
}

TEST_F(CoresTest, QuotaOfAContainersOwnRoot) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1u);
}

TEST_F(CoresTest, QuotaOfTheOldGroups) {
  Write("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/docker/abc\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(UsableCores(root_), all_);
  Write("/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "90000\n");
  EXPECT_EQ(UsableCores(root_), 1u);
}

TEST(CpuListTest, ReadsNumbersAndRanges) {
  EXPECT_THAT(*ParseCpuList("3"), ElementsAre(3));
  EXPECT_THAT(*ParseCpuList("8,0-2,1"), ElementsAre(0, 1, 2, 8));
  for (const char* text :
       {"", ",", "1,", "a", "1-", "-1", "3-1", "1-2-3", "0x1", "1024", "1 2"}) {
    const auto cpus = ParseCpuList(text);
    EXPECT_EQ(cpus.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(cpus.status().message()),
                HasSubstr("no list of CPUs such as 0-3,8"));
  }
}

TEST(CpuListTest, BindsAThreadAndItsChildren) {
  std::thread([] {
    const int last = OwnCpus().back();
    ASSERT_TRUE(RunOn({last}).ok());
    EXPECT_THAT(OwnCpus(), ElementsAre(last));
    EXPECT_EQ(UsableCores("/nonexistent"), 1u);
    std::thread([&] { EXPECT_THAT(OwnCpus(), ElementsAre(last)); }).join();
    const absl::Status other = RunOn({CPU_SETSIZE - 1});
    EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(other.message()), HasSubstr("CPU 1023"));
  }).join();
}

}  // namespace
}  // namespace baton::process
