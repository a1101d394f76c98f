#include "services/cli/doctor_command.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "services/base/status_macros.h"
#include "services/cli/base/table.h"
#include "services/cli/base/unique_fd.h"
#include "services/cli/client/address.h"
#include "services/cli/client/http_client.h"
#include "services/cli/model_check.h"
#include "services/cli/up_command.h"
#include "services/config/option_table.h"
#include "services/gguf/gguf_header.h"
#include "services/process/cores.h"

namespace baton::cli {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

enum class Verdict { kGood, kWarning, kBad };

class Findings {
 public:
  void Add(Verdict verdict, const std::string& subject,
           const std::string& text) {
    bad_ = bad_ || verdict == Verdict::kBad;
    rows_.push_back({verdict == Verdict::kGood      ? "ok"
                     : verdict == Verdict::kWarning ? "warn"
                                                    : "FAIL",
                     subject, text});
  }
  bool bad() const { return bad_; }
  std::string Text() const { return RenderTable(rows_, false); }

 private:
  std::vector<std::vector<std::string>> rows_;
  bool bad_ = false;
};

void CheckBinaries(Findings* findings) {
  const auto folder = ExecutableFolder();
  for (const char* name : {"baton-gateway", "baton-worker", "baton-kvstore"}) {
    const std::string path = absl::StrCat(folder.value_or("."), "/", name);
    const bool there = access(path.c_str(), X_OK) == 0;
    findings->Add(there ? Verdict::kGood : Verdict::kBad, name,
                  there ? path : path + " is missing: build it");
  }
}

void CheckProcessor(Findings* findings) {
  std::string sets;
#if defined(__x86_64__)
  const bool fast =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (__builtin_cpu_supports("avx2")) sets.append(" avx2");
  if (__builtin_cpu_supports("fma")) sets.append(" fma");
  if (__builtin_cpu_supports("avx512f")) sets.append(" avx512f");
  if (__builtin_cpu_supports("avx512vnni")) sets.append(" avx512vnni");
  if (__builtin_cpu_supports("amx-int8")) sets.append(" amx-int8");
#else
  const bool fast = true;
#endif
  findings->Add(
      fast ? Verdict::kGood : Verdict::kWarning, "processor",
      absl::StrCat(process::UsableCores(), " cores,", sets,
                   fast ? "" : " no avx2 and fma: the model will be slow"));
}

// Of /proc/meminfo, in bytes; 0 if unknown.
uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, "MemAvailable:")) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t kib = 0;
    if (words.size() > 1 && absl::SimpleAtoi(words[1], &kib)) return kib * 1024;
  }
  return 0;
}

void CheckModel(const std::string& path, Findings* findings) {
  const auto header = gguf::GgufHeader::FromFile(path);
  const absl::Status usable =
      header.ok() ? CheckModelHeader(**header) : header.status();
  if (!usable.ok()) {
    findings->Add(Verdict::kBad, "model", std::string(usable.message()));
    return;
  }
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  findings->Add(
      Verdict::kGood, "model",
      absl::StrCat((*header)->String("general.architecture").value_or("?"),
                   ", ", (*header)->tensors().size(), " tensors, ",
                   absl::StrFormat("%.2f GiB", bytes / kGiB)));
  const uint64_t memory = AvailableMemory();
  findings->Add(
      bytes < memory ? Verdict::kGood : Verdict::kWarning, "memory",
      absl::StrFormat("%.1f GiB available%s", memory / kGiB,
                      bytes < memory ? ""
                                     : ": less than the model, which each "
                                       "worker reads"));
}

bool CanBind(uint32_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0;
}

void CheckPort(uint32_t port, Findings* findings) {
  const bool free = CanBind(port);
  findings->Add(free ? Verdict::kGood : Verdict::kWarning,
                absl::StrCat("port ", port),
                free ? "free" : "taken: choose another for baton up");
}

void CheckReady(const std::string& url, Findings* findings) {
  const auto ready = HttpGet(url, "/readyz", absl::Seconds(3));
  if (!ready.ok()) {
    findings->Add(Verdict::kBad, "process",
                  std::string(ready.status().message()));
  } else if (ready->status != 200) {
    findings->Add(Verdict::kBad, "process",
                  absl::StrCat("not ready: HTTP ", ready->status, " ",
                               ready->body.substr(0, 200)));
  } else {
    findings->Add(Verdict::kGood, "process", url + " is ready");
  }
}

}  // namespace

int RunDoctor(int argc, const char* const* argv) {
  std::string model, url;
  uint32_t http_port = 8080, grpc_port = 9300;
  config::OptionTable table("baton doctor", "doctor",
                            "Checks this machine, a model and a gateway.");
  table.AddString("model", &model, "GGUF file to check.", 'm');
  table.AddString(
      "url", &url,
      "Check only whether the process at this HTTP address is ready.");
  table.AddUint("http-port", &http_port, 1, 65535, "Must be free for up.");
  table.AddUint("grpc-port", &grpc_port, 1, 65535, "Must be free for up.");
  table.SetCheck([&url]() -> absl::Status {
    if (url.empty()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(url, HostAndPort(url, kDefaultHttpPort));
    return absl::OkStatus();
  });
  const auto outcome = table.Parse(argc, argv, config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  Findings findings;
  if (url.empty()) {
    CheckBinaries(&findings);
    CheckProcessor(&findings);
    CheckPort(http_port, &findings);
    CheckPort(grpc_port, &findings);
  } else {
    // Alone: it also serves as a container's health check.
    CheckReady(url, &findings);
  }
  if (!model.empty()) CheckModel(model, &findings);
  std::fputs(findings.Text().c_str(), stdout);
  return findings.bad() ? 1 : 0;
}

}  // namespace baton::cli
