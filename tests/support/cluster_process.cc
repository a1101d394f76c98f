#include "tests/support/cluster_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/rpc/channel.h"

namespace baton::testing_support {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

pid_t Spawn(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int fd = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  return pid;
}

// The entry of `role` in the state file.
nlohmann::json Entry(const nlohmann::json& state, const std::string& role) {
  if (role == "gateway" || role == "kvstore") {
    return state.contains(role) ? state[role] : nlohmann::json();
  }
  if (state.contains("workers")) {
    for (const auto& worker : state["workers"]) {
      if (worker.value("role", "") == role) return worker;
    }
  }
  return nlohmann::json();
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& address,
                                    const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &port)) {
    return absl::InvalidArgumentError(absl::StrCat("address ", address));
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, parts[0].c_str(), &peer.sin_addr);
  timeval timeout{5, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) != 0) {
    close(fd);
    return absl::UnavailableError("connect");
  }
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", address,
                   "\r\nConnection: close\r\n\r\n");
  std::string response;
  if (write(fd, request.data(), request.size()) > 0) {
    char buffer[65536];
    for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
      response.append(buffer, static_cast<size_t>(n));
    }
  }
  close(fd);
  const size_t body = response.find("\r\n\r\n");
  if (body == std::string::npos || response.size() < 12) {
    return absl::UnavailableError("no response");
  }
  return absl::StrCat(response.substr(9, 3), "\n", response.substr(body + 4));
}

absl::StatusOr<std::unique_ptr<ClusterProcess>> ClusterProcess::Start(
    const Options& options, absl::Duration timeout) {
  std::unique_ptr<ClusterProcess> cluster(new ClusterProcess);
  char directory[] = "/tmp/baton-test-XXXXXX";
  if (mkdtemp(directory) == nullptr) return absl::InternalError("mkdtemp");
  cluster->directory_ = directory;
  std::vector<std::string> arguments = {
      absl::StrCat(BATON_BINARY_DIR, "/baton"),
      "up",
      "--model",
      options.model,
      "--prefill",
      absl::StrCat(options.prefill),
      "--decode",
      absl::StrCat(options.decode),
      "--http",
      "127.0.0.1:0",
      "--grpc",
      "127.0.0.1:0",
      "--state-file",
      cluster->directory_ + "/state.json",
      "--log-dir",
      cluster->directory_};
  if (!options.kvstore) arguments.push_back("--no-kvstore");
  arguments.insert(arguments.end(), options.more.begin(), options.more.end());
  cluster->pid_ = Spawn(arguments, cluster->directory_ + "/up.log");
  const bool ready = Await(
      [&] {
        int status = 0;
        if (waitpid(cluster->pid_, &status, WNOHANG) == cluster->pid_) {
          cluster->pid_ = -1;
          return true;
        }
        // Ready is a gateway with a decode worker: tests want all of them.
        return !cluster->HttpAddress("gateway").empty() &&
               cluster->AwaitReady(absl::ZeroDuration()) &&
               cluster->Metric("gateway", "baton_worker_up") ==
                   options.prefill + options.decode;
      },
      timeout);
  if (!ready || cluster->pid_ < 0) {
    std::string logs;
    for (const auto& entry :
         std::filesystem::directory_iterator(cluster->directory_)) {
      logs += entry.path().filename().string() + ":\n" +
              ReadFile(entry.path().string()) + "\n";
    }
    return absl::UnavailableError("the cluster did not start\n" + logs);
  }
  cluster->stub_ = v1::CompletionService::NewStub(
      rpc::MakeChannel(cluster->GrpcAddress("gateway")));
  return cluster;
}

ClusterProcess::~ClusterProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    const bool ended = Await(
        [this] {
          int status = 0;
          return waitpid(pid_, &status, WNOHANG) == pid_;
        },
        absl::Seconds(20));
    if (!ended) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  if (std::getenv("BATON_KEEP_LOGS") == nullptr) {
    std::filesystem::remove_all(directory_);
  }
}

nlohmann::json ClusterProcess::State() const {
  return nlohmann::json::parse(ReadFile(directory_ + "/state.json"), nullptr,
                               /*allow_exceptions=*/false);
}

pid_t ClusterProcess::Pid(const std::string& role) const {
  const nlohmann::json entry = Entry(State(), role);
  return entry.is_object() ? entry.value("pid", -1) : -1;
}

std::string ClusterProcess::GrpcAddress(const std::string& role) const {
  const nlohmann::json entry = Entry(State(), role);
  return entry.is_object() ? entry.value("grpc", "") : "";
}

std::string ClusterProcess::HttpAddress(const std::string& role) const {
  const nlohmann::json entry = Entry(State(), role);
  return entry.is_object() ? entry.value("http", "") : "";
}

bool ClusterProcess::AwaitRestart(const std::string& role, pid_t old_pid,
                                  absl::Duration timeout) const {
  return Await(
      [&] {
        const pid_t pid = Pid(role);
        return pid > 0 && pid != old_pid;
      },
      timeout);
}

bool ClusterProcess::AwaitReady(absl::Duration timeout) const {
  return Await(
      [&] {
        auto response = HttpGet(HttpAddress("gateway"), "/readyz");
        return response.ok() && absl::StartsWith(*response, "200");
      },
      timeout);
}

double ClusterProcess::Metric(const std::string& role,
                              const std::string& series) const {
  auto text = HttpGet(HttpAddress(role), "/metrics");
  if (!text.ok()) return -1;
  double sum = 0;
  bool found = false;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::StartsWith(line, series)) continue;
    const size_t space = line.rfind(' ');
    double value = 0;
    if (space != absl::string_view::npos &&
        absl::SimpleAtod(line.substr(space + 1), &value)) {
      sum += value;
      found = true;
    }
  }
  return found ? sum : -1;
}

}  // namespace baton::testing_support
