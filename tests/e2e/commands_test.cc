// The programs as a person meets them: exit codes, one clear line for each
// mistake, nothing started or left behind that should not be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/cluster/child_process.h"
#include "services/cli/cluster/state_file.h"
#include "tests/support/cluster_process.h"

namespace baton {
namespace {

using cli::ChildProcess;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using testing_support::Await;

using Arguments = std::vector<std::string>;

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t Lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

// A folder of its own for each test, which is also the programs' TMPDIR.
class CommandsTest : public testing::Test {
 protected:
  CommandsTest() {
    std::string path = testing::TempDir() + "/commands-XXXXXX";
    folder_ = mkdtemp(path.data());
    temporary_ = folder_ + "/tmp";
    std::filesystem::create_directory(temporary_);
    setenv("TMPDIR", temporary_.c_str(), 1);
  }
  ~CommandsTest() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  struct Ending {
    std::string how;     // "exit code 0"
    std::string output;  // standard output
    std::string error;   // standard error
  };

  std::string Errors() const { return ReadFile(folder_ + "/stderr"); }

  ChildProcess Start(const std::string& program, const Arguments& arguments) {
    std::filesystem::remove(folder_ + "/stderr");
    output_.clear();
    ChildProcess::Options options;
    options.binary = absl::StrCat(BATON_BINARY_DIR, "/", program);
    options.arguments = arguments;
    options.log_path = folder_ + "/stderr";
    auto child = ChildProcess::Start(options);
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }

  bool AwaitOutput(ChildProcess* child, const std::string& start) {
    return Await(
        [&] {
          TakeOutput(child);
          return absl::StrContains(output_, "\n" + start) ||
                 absl::StartsWith(output_, start);
        },
        kPatience);
  }

  Ending AwaitEnd(ChildProcess* child) {
    const bool ended = Await(
        [&] {
          TakeOutput(child);
          return child->TryReap();
        },
        kPatience);
    EXPECT_TRUE(ended) << "still running: " << Errors();
    TakeOutput(child);
    return {child->ending(), output_, Errors()};
  }

  Ending Run(const std::string& program, const Arguments& arguments) {
    ChildProcess child = Start(program, arguments);
    return AwaitEnd(&child);
  }

  void TakeOutput(ChildProcess* child) {
    for (const std::string& line : child->TakeLines()) {
      absl::StrAppend(&output_, line, "\n");
    }
  }

  Arguments UpArguments() const {
    return {"up",
            "--model",
            BATON_DEMO_MODEL,
            "--http=127.0.0.1:0",
            "--prefill=0",
            "--grpc=127.0.0.1:0",
            "--no-kvstore",
            "--state-file=" + StatePath()};
  }
  std::string StatePath() const { return folder_ + "/state.json"; }

  std::string folder_;
  std::string temporary_;
  std::string output_;
};

// Listens, takes connections into its backlog, and never says a word.
class SilentServer {
 public:
  SilentServer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 8), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }
  bool AwaitClient() const {
    pollfd fds = {fd_.get(), POLLIN, 0};
    return poll(&fds, 1, 30000) == 1;
  }

 private:
  const cli::UniqueFd fd_;
  std::string address_;
};

TEST_F(CommandsTest, CheckConfigRefusesWhatTheProgramRefuses) {
  const std::string config = folder_ + "/config.yaml";
  std::ofstream(config) << "gateway:\n  max-inflight: 0\n";
  const std::string model = absl::StrCat("--model=", BATON_DEMO_MODEL);
  const std::vector<std::tuple<std::string, Arguments, std::string>> cases = {
      {"baton-kvstore", {"--grpc=0.0.0.0:0"}, "--insecure allows it"},
      {"baton-kvstore", {"--capacity=0"}, "--capacity must not be 0"},
      {"baton-kvstore", {"--lease-ttl=0"}, "must be positive"},
      {"baton-worker", {model, "--http=0.0.0.0:0"}, "--insecure allows it"},
      {"baton-worker", {model, "--lease-ttl=1ms"}, "at least 100ms"},
      {"baton-gateway", {"--grpc=0.0.0.0:0"}, "--insecure allows it"},
      {"baton-gateway", {"--http=nowhere"}, "is not host:port"},
      {"baton", {"up", model, "--decode=0"}, "--decode 0"},
      {"baton", {"up", model, "--no-kvstore"}, "--no-kvstore needs"},
      {"baton", {"up", model, "--http=0.0.0.0:0"}, "--insecure allows it"},
      {"baton", {"up", model, "--worker-flag=--bogus"}, "--bogus"},
      {"baton", {"up", model, "--config", config}, "max-inflight"},
      {"baton", {"chat", "--seed=x"}, "is not a whole number"},
      {"baton", {"chat", "--url=https://localhost"}, "is not host:port"},
      {"baton", {"bench", "--url=localhost/v1"}, "is not host:port"},
      {"baton", {"doctor", "--url=:1"}, "is not host:port"}};
  for (const auto& [program, arguments, why] : cases) {
    SCOPED_TRACE(program + " " + absl::StrJoin(arguments, " "));
    Arguments checked = arguments;
    checked.push_back("--check-config");
    for (const Arguments& way : {arguments, checked}) {
      const Ending ending = Run(program, way);
      EXPECT_EQ(ending.how, "exit code 78");
      EXPECT_THAT(ending.error, HasSubstr(why));
      EXPECT_THAT(ending.error, StartsWith("baton"));
      EXPECT_EQ(Lines(ending.error), 1u) << ending.error;
      EXPECT_THAT(ending.output, IsEmpty());
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary_));
}

TEST_F(CommandsTest, InsecureOfUpIsForTheGateway) {
  const Ending ending =
      Run("baton", {"up", absl::StrCat("--model=", BATON_DEMO_MODEL),
                    "--http=0.0.0.0:0", "--insecure", "--check-config"});
  EXPECT_EQ(ending.how, "exit code 0") << ending.error;
  EXPECT_THAT(ending.output, HasSubstr("configuration is valid"));
}

TEST_F(CommandsTest, AModelThatCannotBeReadStartsNothing) {
  const std::string broken = folder_ + "/broken.gguf";
  std::ofstream(broken) << "GGUFxxxxxxxxxxxxxxxx";
  const std::string cut = folder_ + "/cut.gguf";
  std::filesystem::copy_file(BATON_DEMO_MODEL, cut);
  std::filesystem::resize_file(cut, 4 << 20);
  // Whole, but of an architecture that no worker has; the length stays.
  const std::string foreign = folder_ + "/foreign.gguf";
  std::string bytes = ReadFile(BATON_DEMO_MODEL);
  const size_t name = bytes.find("llama", bytes.find("general.architecture"));
  ASSERT_NE(name, std::string::npos);
  std::ofstream(foreign) << bytes.replace(name, 5, "lemma");
  for (const char* command : {"up", "demo"}) {
    for (const std::string& model :
         {std::string("/nonexistent.gguf"), folder_, broken, cut, foreign}) {
      SCOPED_TRACE(absl::StrCat(command, " ", model));
      const Ending ending = Run("baton", {command, "--model", model});
      EXPECT_EQ(ending.how, "exit code 1");
      EXPECT_THAT(ending.error,
                  StartsWith(absl::StrCat("baton ", command, ": ", model)));
      EXPECT_EQ(Lines(ending.error), 1u) << ending.error;
      EXPECT_THAT(ending.output, IsEmpty());
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary_));
}

TEST_F(CommandsTest, WithoutAGatewayClientsSayHowToStartOne) {
  for (const Arguments& arguments :
       std::vector<Arguments>{{"chat", "-p", "hello", "--grpc=127.0.0.1:1"},
                              {"chat", "-p", "hello", "--url=127.0.0.1:1"},
                              {"bench", "--grpc=127.0.0.1:1"},
                              {"bench", "--url=127.0.0.1:1"}}) {
    SCOPED_TRACE(absl::StrJoin(arguments, " "));
    const Ending ending = Run("baton", arguments);
    EXPECT_EQ(ending.how, "exit code 1");
    EXPECT_THAT(ending.error, HasSubstr("no gateway at 127.0.0.1:1 (`baton up` "
                                        "starts one)\n"));
    EXPECT_THAT(ending.error, HasSubstr("baton " + arguments[0] + ": "));
  }
}

TEST_F(CommandsTest, APromptFileThatCannotBeReadSaysWhy) {
  const Ending ending = Run("baton", {"bench", "--prompt-file=/nonexistent"});
  EXPECT_EQ(ending.how, "exit code 1");
  EXPECT_EQ(ending.error,
            "baton bench: /nonexistent: No such file or directory\n");
}

TEST_F(CommandsTest, AnInterruptedClientSaysSo) {
  for (const char* transport : {"--url=", "--grpc="}) {
    for (const Arguments& command :
         std::vector<Arguments>{{"bench", "--prompt-file=" + folder_ + "/one"},
                                {"chat", "-p", "hello"}}) {
      std::ofstream(folder_ + "/one") << "hello\n";
      SCOPED_TRACE(command[0] + transport);
      const SilentServer server;
      Arguments arguments = command;
      arguments.push_back(transport + server.address());
      ChildProcess child = Start("baton", arguments);
      ASSERT_TRUE(server.AwaitClient());
      child.Signal(SIGINT);
      const Ending ending = AwaitEnd(&child);
      EXPECT_EQ(ending.how, "exit code 130") << ending.error;
      EXPECT_THAT(ending.error, testing::AnyOf(HasSubstr("interrupted"),
                                               HasSubstr("cancelled")));
    }
  }
}

TEST_F(CommandsTest, AnInterruptedDemoSaysSo) {
  ChildProcess child = Start("baton", {"demo", "--model", BATON_DEMO_MODEL});
  ASSERT_TRUE(
      Await([this] { return absl::StrContains(Errors(), "starting: cluster"); },
            kPatience));
  child.Signal(SIGINT);
  const Ending ending = AwaitEnd(&child);
  EXPECT_EQ(ending.how, "exit code 130") << ending.error;
  EXPECT_THAT(ending.error, HasSubstr("baton demo: interrupted\n"));
  EXPECT_TRUE(std::filesystem::is_empty(temporary_));
}

TEST_F(CommandsTest, ACleanEndLeavesNeitherLogsNorState) {
  ChildProcess child = Start("baton", UpArguments());
  ASSERT_TRUE(AwaitOutput(&child, "ready:")) << Errors();
  const auto state = cli::ReadStateFile(StatePath());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->ready);
  child.Signal(SIGINT);
  const Ending ending = AwaitEnd(&child);
  EXPECT_EQ(ending.how, "exit code 0") << ending.error;
  EXPECT_FALSE(std::filesystem::exists(StatePath()));
  EXPECT_TRUE(std::filesystem::is_empty(temporary_)) << ending.error;
}

// Prompts give way to running streams.
TEST_F(CommandsTest, OnlyPrefillWorkersYieldTheCores) {
  ChildProcess child =
      Start("baton", {"up", "--model", BATON_DEMO_MODEL, "--http=127.0.0.1:0",
                      "--grpc=127.0.0.1:0", "--state-file=" + StatePath()});
  ASSERT_TRUE(AwaitOutput(&child, "ready:")) << Errors();
  const auto state = cli::ReadStateFile(StatePath());
  ASSERT_TRUE(state.ok()) << state.status();
  const int ours = getpriority(PRIO_PROCESS, 0);
  for (const char* role : {"gateway", "kvstore", "prefill", "decode"}) {
    EXPECT_EQ(
        getpriority(PRIO_PROCESS, static_cast<id_t>(state->Find(role)->pid)),
        std::string(role) == "prefill" ? 10 : ours)
        << role;
  }
  child.Signal(SIGINT);
  EXPECT_EQ(AwaitEnd(&child).how, "exit code 0");
}

TEST_F(CommandsTest, LogsOfAFaultAreKept) {
  ChildProcess child = Start("baton", UpArguments());
  ASSERT_TRUE(AwaitOutput(&child, "ready:")) << Errors();
  const auto state = cli::ReadStateFile(StatePath());
  ASSERT_TRUE(state.ok()) << state.status();
  kill(state->Find("decode")->pid, SIGKILL);
  ASSERT_TRUE(
      Await([this] { return absl::StrContains(Errors(), "decode-0 is back"); },
            kPatience));
  child.Signal(SIGTERM);
  const Ending ending = AwaitEnd(&child);
  EXPECT_EQ(ending.how, "exit code 0") << ending.error;
  EXPECT_THAT(ending.error, HasSubstr("logs are kept in " + state->log_dir));
  EXPECT_TRUE(std::filesystem::exists(state->log_dir + "/decode-0.log"));
  EXPECT_FALSE(std::filesystem::exists(StatePath()));
}

}  // namespace
}  // namespace baton
