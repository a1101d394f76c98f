#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "services/cli/base/progress_line.h"
#include "services/cli/base/table.h"
#include "services/cli/client/address.h"
#include "services/cli/client/metrics_text.h"
#include "services/cli/cluster/listening_line.h"
#include "services/cli/cluster/log_folder.h"
#include "services/cli/cluster/plan.h"
#include "services/cli/cluster/restart_policy.h"
#include "services/cli/cluster/state_file.h"

namespace baton::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(RestartPolicyTest, DoublesUpToTheBoundAndForgetsAfterAStableLife) {
  RestartPolicy policy({});
  const absl::Duration shortly = absl::Seconds(1);
  for (int ms : {100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
    EXPECT_EQ(policy.OnExit(shortly), absl::Milliseconds(ms));
  }
  EXPECT_EQ(policy.OnExit(absl::Seconds(10)), absl::Milliseconds(100));
  EXPECT_EQ(policy.OnExit(shortly), absl::Milliseconds(200));
}

TEST(ListeningLineTest, ReadsBothAddressesInAnyOrder) {
  const auto line = ParseListeningLine(
      "baton-worker listening grpc=127.0.0.1:9301 http=127.0.0.1:9401");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->grpc, "127.0.0.1:9301");
  EXPECT_EQ(line->http, "127.0.0.1:9401");
  EXPECT_EQ(ParseListeningLine("baton-x listening http=a:1 grpc=[::1]:2")->grpc,
            "[::1]:2");
}

TEST(ListeningLineTest, IgnoresEveryOtherLine) {
  for (const char* line :
       {"", "baton-worker", "baton-worker listening",
        "worker listening grpc=a:1", "baton-worker loading grpc=a:1",
        "baton-worker listening grpc=a:0",
        "baton-worker listening grpc=a:99999", "baton-worker listening grpc=:1",
        "baton-worker listening http=a:1"}) {
    EXPECT_FALSE(ParseListeningLine(line).has_value()) << line;
  }
}

TEST(MetricsTextTest, FindsTheSampleOfExactlyThisName) {
  const char* text =
      "# HELP a_ratio x\n# TYPE a_ratio gauge\n"
      "a_ratio_more 9\n"
      "a_ratio{model=\"x y } z\",b=\"\"} 0.5 1700000000\n"
      "plain 3\n";
  EXPECT_EQ(FirstSample(text, "a_ratio"), 0.5);
  EXPECT_EQ(FirstSample(text, "plain"), 3);
  EXPECT_EQ(FirstSample(text, "a_rat"), std::nullopt);
  EXPECT_EQ(FirstSample("", "a_ratio"), std::nullopt);
}

TEST(TableTest, PadsColumnsAndTrimsTheEndOfALine) {
  EXPECT_EQ(RenderTable({{"a", "bb"}, {"ccc", "d"}, {"e"}}, false),
            "a    bb\nccc  d\ne\n");
  EXPECT_EQ(RenderTable({{"", "p50"}, {"x", "1.0"}, {"yy", "12.0"}}, true),
            "     p50\nx    1.0\nyy  12.0\n");
  // A character counts once, however many bytes it has.
  EXPECT_EQ(RenderTable({{"Δp", "±"}, {"abc", "12"}}, true),
            "Δp    ±\nabc  12\n");
}

TEST(TableTest, AProgressBarStaysInItsBounds) {
  EXPECT_EQ(RenderProgress("x", 0.5, 4), "x  [##..]   50 %");
  EXPECT_EQ(RenderProgress("x", -1, 4), "x  [....]    0 %");
  EXPECT_EQ(RenderProgress("x", 7, 4), "x  [####]  100 %");
  EXPECT_EQ(RenderProgress("x", std::numeric_limits<double>::quiet_NaN(), 4),
            "x  [....]    0 %");
}

// What a ProgressLine wrote.
class CapturedLine {
 public:
  explicit CapturedLine(bool terminal) : line(out_, terminal) {}
  ~CapturedLine() { std::fclose(out_); }
  std::string Text() {
    std::string text(std::ftell(out_), '\0');
    std::rewind(out_);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out_), text.size());
    return text;
  }

 private:
  FILE* const out_ = std::tmpfile();

 public:
  ProgressLine line;
};

TEST(ProgressLineTest, WritesOverItselfOnATerminal) {
  CapturedLine captured(true);
  captured.line.Clear();
  captured.line.Show("one", absl::Seconds(100));
  captured.line.Show("two", absl::Seconds(100.1));
  captured.line.Clear();
  captured.line.Clear();
  EXPECT_EQ(captured.Text(), "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K");
}

TEST(ProgressLineTest, IsALineNowAndThenElsewhere) {
  CapturedLine captured(false);
  for (int tenth = 0; tenth <= 60; ++tenth) {
    captured.line.Show(std::to_string(tenth),
                       absl::Milliseconds(1000 + 100 * tenth));
  }
  captured.line.Clear();
  EXPECT_EQ(captured.Text(), "0\n50\n");
}

TEST(LogFolderTest, ATemporaryOneGoesUnlessItIsKept) {
  std::string path;
  {
    const auto folder = LogFolder::Create("", testing::TempDir());
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = (*folder)->path();
    EXPECT_TRUE((*folder)->temporary());
    std::ofstream(path + "/gateway.log") << "x";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  {
    const auto folder = LogFolder::Create("", testing::TempDir());
    path = (*folder)->path();
    (*folder)->Keep();
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(path);
}

TEST(LogFolderTest, OneThatWasAskedForStays) {
  const std::string path = testing::TempDir() + "/asked/for";
  {
    const auto folder = LogFolder::Create(path, "/nonexistent");
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_FALSE((*folder)->temporary());
  }
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(testing::TempDir() + "/asked");
  EXPECT_FALSE(LogFolder::Create("", "/nonexistent").ok());
}

TEST(AddressTest, FillsInWhatIsLeftOut) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"localhost", "localhost:8080"},
      {"http://localhost", "localhost:8080"},
      {"http://localhost/", "localhost:8080"},
      {"localhost:1", "localhost:1"},
      {"http://10.0.0.1:65535/", "10.0.0.1:65535"},
      {"[::1]", "[::1]:8080"},
      {"http://[::1]:9/", "[::1]:9"}};
  for (const auto& [given, full] : cases) {
    const auto address = HostAndPort(given, kDefaultHttpPort);
    ASSERT_TRUE(address.ok()) << given << address.status();
    EXPECT_EQ(*address, full);
  }
}

TEST(AddressTest, RefusesWhatIsNoAddress) {
  for (const char* given :
       {"", "http://", ":80", "localhost:", "localhost:http", "localhost:0",
        "localhost:65536", "localhost:-1", "a:1:2", "::1", "[::1", "::1]",
        "https://localhost", "http://localhost/v1", "http://localhost:1/v1",
        "ftp://x:1"}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(HostAndPort(given, kDefaultHttpPort).status()))
        << given;
  }
}

TEST(AddressTest, CompletesBothAddressesOfACommand) {
  std::string url, grpc = "here";
  ASSERT_TRUE(CompleteAddresses(&url, &grpc).ok());
  EXPECT_EQ(url, "");
  EXPECT_EQ(grpc, "here:9300");
  url = "http://there";
  grpc = "unix:/run/baton.sock";
  ASSERT_TRUE(CompleteAddresses(&url, &grpc).ok());
  EXPECT_EQ(url, "there:8080");
  EXPECT_EQ(grpc, "unix:/run/baton.sock");
  url = "a:b";
  const absl::Status wrong = CompleteAddresses(&url, &grpc);
  EXPECT_TRUE(absl::IsInvalidArgument(wrong));
  EXPECT_THAT(std::string(wrong.message()), testing::StartsWith("--url: "));
}

ClusterOptions Options() {
  ClusterOptions options;
  options.model = "m.gguf";
  options.prefill = 2;
  options.decode = 1;
  return options;
}

TEST(ClusterPlanTest, WorkersShareTheCores) {
  ClusterOptions options = Options();
  EXPECT_EQ(WorkerThreads(options, 16), 5u);
  EXPECT_EQ(WorkerThreads(options, 2), 1u);
  options.threads = 3;
  EXPECT_EQ(WorkerThreads(options, 16), 3u);
}

TEST(ClusterPlanTest, NamesWorkersByRoleAndTellsThemOfTheOthers) {
  const auto specs = WorkerSpecs(Options(), "/bin", 6, "g:1", "k:2");
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].name, "prefill-0");
  EXPECT_EQ(specs[1].name, "prefill-1");
  EXPECT_EQ(specs[2].name, "decode-0");
  EXPECT_EQ(specs[2].binary, "/bin/baton-worker");
  EXPECT_THAT(specs[2].arguments,
              AllOf(Contains("--role=decode"), Contains("--model=m.gguf"),
                    Contains("--gateway=g:1"), Contains("--kvstore=k:2"),
                    Contains("--threads=2"), Contains("--worker-id=decode-0")));
  const auto alone = WorkerSpecs(Options(), "/bin", 6, "g:1", "");
  EXPECT_THAT(alone[0].arguments,
              Not(Contains(testing::StartsWith("--kvstore"))));
}

TEST(ClusterPlanTest, ClientsLoseTheirEndFirstAndTheStoreGoesLast) {
  const auto workers = WorkerSpecs(Options(), "/bin", 6, "g:1", "k:2");
  const int gateway = GatewaySpec(Options(), "/bin").drain_rank;
  EXPECT_LT(gateway, workers[0].drain_rank);
  EXPECT_LT(workers[0].drain_rank, workers[2].drain_rank);
  EXPECT_LT(workers[2].drain_rank, KvStoreSpec(Options(), "/bin").drain_rank);
}

TEST(ClusterPlanTest, ARestartedGatewayKnowsTheWorkersAtOnce) {
  ClusterOptions options = Options();
  options.gateway_flags = {"--max-queued=3"};
  const ProcessSpec gateway = GatewaySpec(options, "/bin");
  const auto arguments =
      RestartArguments(gateway, {{"kvstore", "kvstore", 1, "k:1", "", 0},
                                 {"gateway", "gateway", 2, "g:1", "", 0},
                                 {"prefill-0", "prefill", 3, "p:1", "", 0},
                                 {"decode-0", "decode", 4, "d:1", "", 0}});
  EXPECT_THAT(arguments, ElementsAre("--drain-timeout=30s", "--max-queued=3",
                                     "--worker=p:1", "--worker=d:1"));
}

TEST(ClusterPlanTest, PassesOnOnlyWhatWasAskedFor) {
  ClusterOptions options = Options();
  EXPECT_THAT(KvStoreSpec(options, "/bin").arguments,
              ElementsAre("--drain-timeout=30s"));
  options.store_capacity = 1 << 20;
  options.lease_ttl = absl::Seconds(3);
  options.kv_memory = 4096;
  EXPECT_THAT(
      KvStoreSpec(options, "/bin").arguments,
      AllOf(Contains("--capacity=1048576"), Contains("--lease-ttl=3s")));
  EXPECT_THAT(WorkerSpecs(options, "/bin", 6, "g:1", "")[0].arguments,
              AllOf(Contains("--kv-memory=4096"), Contains("--lease-ttl=3s")));
}

TEST(ClusterPlanTest, OnlyTheGatewayListensBeyondLoopback) {
  ClusterOptions options = Options();
  options.insecure = true;
  EXPECT_THAT(GatewaySpec(options, "/bin").arguments, Contains("--insecure"));
  EXPECT_THAT(KvStoreSpec(options, "/bin").arguments,
              Not(Contains("--insecure")));
  for (const auto& worker : WorkerSpecs(options, "/bin", 6, "g:1", "k:2")) {
    EXPECT_THAT(worker.arguments, Not(Contains("--insecure")));
  }
}

TEST(ClusterPlanTest, EveryProcessReadsTheFile) {
  ClusterOptions options = Options();
  options.config_file = "a.yaml";
  auto specs = WorkerSpecs(options, "/bin", 6, "g:1", "k:2");
  specs.push_back(GatewaySpec(options, "/bin"));
  specs.push_back(KvStoreSpec(options, "/bin"));
  for (const ProcessSpec& spec : specs) {
    EXPECT_THAT(spec.arguments, Contains("--config=a.yaml")) << spec.name;
  }
}

TEST(ClusterPlanTest, RefusesAClusterThatCannotServe) {
  ClusterOptions options = Options();
  EXPECT_TRUE(CheckOptions(options).ok());
  options.kvstore = false;
  EXPECT_FALSE(CheckOptions(options).ok());
  options.prefill = 0;
  EXPECT_TRUE(CheckOptions(options).ok());
  options.decode = 0;
  EXPECT_FALSE(CheckOptions(options).ok());
}

TEST(StateFileTest, ReadsBackWhatItWrote) {
  ClusterState state;
  state.supervisor_pid = 5;
  state.ready = true;
  state.log_dir = "/logs";
  state.processes = {{"gateway", "gateway", 1, "a:1", "a:2", 0},
                     {"prefill-0", "prefill", 2, "b:1", "b:2", 3},
                     {"decode-0", "decode", 0, "c:1", "c:2", 1}};
  const auto json = nlohmann::json::parse(StateJson(state));
  EXPECT_EQ(json["gateway"]["grpc"], "a:1");
  EXPECT_FALSE(json.contains("kvstore"));
  ASSERT_EQ(json["workers"].size(), 2u);
  EXPECT_EQ(json["workers"][0]["role"], "prefill");

  const std::string path = testing::TempDir() + "/state_round_trip.json";
  ASSERT_TRUE(WriteStateFile(path, state).ok());
  const auto read = ReadStateFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(StateJson(*read), StateJson(state));
}

TEST(StateFileTest, IsRemovedByTheSupervisorThatWroteIt) {
  const std::string path = testing::TempDir() + "/state_removal.json";
  ClusterState state;
  state.supervisor_pid = 5;
  ASSERT_TRUE(WriteStateFile(path, state).ok());
  RemoveStateFile(path, 6);
  EXPECT_TRUE(ReadStateFile(path).ok());
  RemoveStateFile(path, 5);
  EXPECT_TRUE(absl::IsNotFound(ReadStateFile(path).status()));
  RemoveStateFile(path, 5);
  std::ofstream(path) << "{}";
  RemoveStateFile(path, 0);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(StateFileTest, AMissingOrForeignFileIsAnError) {
  EXPECT_EQ(ReadStateFile("/nonexistent/state").status().code(),
            absl::StatusCode::kNotFound);
  const std::string path = testing::TempDir() + "/foreign.json";
  ASSERT_TRUE(WriteStateFile("/nonexistent/x", {}).code() ==
              absl::StatusCode::kUnavailable);
  FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("{\"pid\": \"x\"}", file);
  std::fclose(file);
  EXPECT_EQ(ReadStateFile(path).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace baton::cli
