#include "services/process/cores.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/base/log.h"

namespace baton::process {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Words of a small file; none if there is no such file.
std::vector<std::string> Words(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

double Ratio(const std::string& quota, const std::string& period) {
  double q = 0, p = 0;
  if (!absl::SimpleAtod(quota, &q) || !absl::SimpleAtod(period, &p) || q <= 0 ||
      p <= 0) {
    return kNoLimit;  // "max", or -1
  }
  return q / p;
}

double LimitOf(const std::string& directory) {
  const auto v2 = Words(directory + "/cpu.max");
  if (v2.size() == 2) return Ratio(v2[0], v2[1]);
  const auto quota = Words(directory + "/cpu.cfs_quota_us");
  const auto period = Words(directory + "/cpu.cfs_period_us");
  if (quota.size() == 1 && period.size() == 1)
    return Ratio(quota[0], period[0]);
  return kNoLimit;
}

// The least of the limits of `group` and of all groups that it is in.
double LeastLimit(const std::string& mount, std::string group) {
  double least = LimitOf(mount);
  while (group.size() > 1) {
    least = std::min(least, LimitOf(mount + group));
    group.resize(group.rfind('/'));
  }
  return least;
}

// Both kinds of control groups; lines of /proc/self/cgroup are
// "0::/path" or "4:cpu,cpuacct:/path".
double QuotaOf(const std::string& root) {
  const std::string mount = root + "/sys/fs/cgroup";
  double least = kNoLimit;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[1].empty()) {
      least = std::min(least, LeastLimit(mount, parts[2]));
    }
    for (absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "cpu") continue;
      least = std::min(least, LeastLimit(mount + "/cpu", parts[2]));
    }
  }
  return least;
}

bool ParseCpu(absl::string_view text, int* cpu) {
  return absl::SimpleAtoi(text, cpu) && *cpu >= 0 && *cpu < CPU_SETSIZE;
}

}  // namespace

uint32_t UsableCores(const std::string& root) {
  cpu_set_t set;
  // A machine with more than 1,024 CPUs does not fit the set.
  double cores = std::max(1u, std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  return static_cast<uint32_t>(
      std::max(1.0, std::min(cores, std::ceil(QuotaOf(root)))));
}

absl::StatusOr<std::vector<int>> ParseCpuList(absl::string_view text) {
  std::vector<int> cpus;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    const bool range = absl::StrContains(part, '-');
    int first = 0, last = 0;
    if (!ParseCpu(ends.first, &first) ||
        !ParseCpu(range ? ends.second : ends.first, &last) || last < first) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", text, "' is no list of CPUs such as 0-3,8 ('", part, "')"));
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

absl::Status RunOn(const std::vector<int>& cpus) {
  cpu_set_t allowed, wanted;
  CPU_ZERO(&wanted);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot read the CPUs of this process: ", std::strerror(errno)));
  }
  for (int cpu : cpus) {
    if (!CPU_ISSET(cpu, &allowed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("this process may not use CPU ", cpu));
    }
    CPU_SET(cpu, &wanted);
  }
  if (sched_setaffinity(0, sizeof(wanted), &wanted) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot choose the CPUs of this process: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void YieldCores(uint32_t nice) {
  if (nice == 0) return;
  if (setpriority(PRIO_PROCESS, 0, static_cast<int>(nice)) == 0) return;
  Log(LogLevel::kWarning, "cannot lower the scheduling priority",
      {{"nice", nice}, {"error", std::strerror(errno)}});
}

}  // namespace baton::process
