// The binary baton-kvstore as a supervisor and a worker see it.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/client/grpc_kvstore_client.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/kvstore_fakes.h"

namespace baton::kvstore {
namespace {

using Code = absl::StatusCode;

// One run of the binary; killed at the end if it still runs.
class StoreProcess {
 public:
  explicit StoreProcess(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), BATON_BINARY_DIR "/baton-kvstore");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::array<int, 2> out;
    EXPECT_EQ(pipe(out.data()), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    EXPECT_EQ(
        posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    output_ = fdopen(out[0], "r");
  }
  ~StoreProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    fclose(output_);
  }

  // The next line of its standard output, "" at the end.
  std::string ReadLine() {
    std::array<char, 512> line;
    return fgets(line.data(), line.size(), output_) == nullptr ? ""
                                                               : line.data();
  }
  void Signal(int signal) { kill(pid_, signal); }
  // The exit code; -1 if a signal ended it.
  int AwaitExit() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  std::FILE* output_ = nullptr;
};

std::string After(const std::string& line, const std::string& mark) {
  const size_t at = line.find(mark);
  if (at == std::string::npos) return "";
  const size_t start = at + mark.size();
  return line.substr(start, line.find_first_of(" \n", start) - start);
}

class KvStoreProcessTest : public testing::Test {
 protected:
  static std::vector<std::string> Flags(
      const std::string& more, const std::string& address = "127.0.0.1:0") {
    return {"--grpc=" + address, "--http=127.0.0.1:0", "--reap-interval=20ms",
            more};
  }
  std::unique_ptr<GrpcKvStoreClient> Client(const std::string& address) {
    GrpcKvStoreClient::Options options;
    options.address = address;
    options.model_name = "m";
    options.call_timeout = absl::Seconds(20);
    return GrpcKvStoreClient::Create(options, metrics_.get(), &clock_);
  }

  SystemClock clock_;
  const std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("decode");
};

TEST_F(KvStoreProcessTest, ServesThenDrainsOnSigterm) {
  StoreProcess process(Flags("--drain-timeout=60s"));
  const std::string line = process.ReadLine();
  EXPECT_EQ(line.rfind("baton-kvstore listening grpc=127.0.0.1:", 0), 0u)
      << line;
  EXPECT_NE(After(line, " http=127.0.0.1:"), "") << line;
  auto client = Client(After(line, "grpc="));
  const Lease lease =
      client->Lookup(HandoffId("h"), {}, absl::Seconds(10)).value().lease;
  const auto payload = TestPayload(3'000'000, 1);
  const auto object = client->Publish(lease, TestKey(1), payload, false);
  ASSERT_TRUE(object.ok()) << object.status();
  process.Signal(SIGTERM);
  // New handoffs are refused, eventually; the held lease still works.
  Code code = Code::kOk;
  for (int i = 0; code == Code::kOk; ++i) {
    const auto other = client->Lookup(HandoffId("n" + std::to_string(i)), {},
                                      absl::Milliseconds(1));
    code = other.status().code();
  }
  EXPECT_EQ(code, Code::kUnavailable);
  std::vector<std::byte> read(payload.size());
  EXPECT_TRUE(client->Fetch(lease, *object, read).ok());
  EXPECT_EQ(read, payload);
  EXPECT_TRUE(client->Release(lease).ok());
  EXPECT_EQ(process.AwaitExit(), 0);
  EXPECT_EQ(process.ReadLine(), "");  // one line in all
}

TEST_F(KvStoreProcessTest, AKilledStoreForgetsItsLeases) {
  std::string address;
  Lease lease;
  ObjectInfo object;
  std::vector<std::byte> payload = TestPayload(1000, 1);
  {
    StoreProcess process(Flags("--lease-ttl=10s"));
    address = After(process.ReadLine(), "grpc=");
    auto client = Client(address);
    lease = client->Lookup(HandoffId("h"), {}, absl::Seconds(10))->lease;
    object = client->Publish(lease, TestKey(1), payload, false).value();
    process.Signal(SIGKILL);
    EXPECT_EQ(process.AwaitExit(), -1);
    EXPECT_EQ(client->Fetch(lease, object, payload).code(), Code::kUnavailable);
  }
  StoreProcess process(Flags("--capacity=16MiB", address));
  ASSERT_EQ(After(process.ReadLine(), "grpc="), address);
  auto client = Client(address);
  EXPECT_EQ(client->Fetch(lease, object, payload).code(), Code::kAborted);
  EXPECT_EQ(client->Renew(lease, absl::Seconds(1)).code(), Code::kAborted);
  process.Signal(SIGINT);
  EXPECT_EQ(process.AwaitExit(), 0);
}

TEST_F(KvStoreProcessTest, RefusesABadConfigurationWithItsOwnCode) {
  EXPECT_EQ(StoreProcess(Flags("--capacity=0")).AwaitExit(), 78);
  EXPECT_EQ(StoreProcess(Flags("--lease-tll=1s")).AwaitExit(), 78);
  EXPECT_EQ(StoreProcess(Flags("--lease-ttl=-1s")).AwaitExit(), 78);
}

TEST_F(KvStoreProcessTest, AnAddressInUseIsOneClearFailure) {
  StoreProcess first(Flags("--lease-ttl=10s"));
  const std::string address = After(first.ReadLine(), "grpc=");
  StoreProcess second(Flags("--capacity=16MiB", address));
  EXPECT_EQ(second.ReadLine(), "");
  EXPECT_EQ(second.AwaitExit(), 1);
}

}  // namespace
}  // namespace baton::kvstore
