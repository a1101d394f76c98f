#include "services/cli/up_command.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "services/base/clock.h"
#include "services/base/status_macros.h"
#include "services/cli/http_client.h"
#include "services/cli/load_progress.h"
#include "services/cli/metrics_text.h"
#include "services/cli/table.h"
#include "services/config/option_table.h"

namespace baton::cli {
namespace {

// A worker that dies this often before the cluster was ever ready will not
// load the model the next time either.
constexpr uint32_t kMaxRestartsWhileLoading = 3;

struct UpOptions {
  ClusterOptions cluster;
  std::string log_dir;
  std::string state_file;
};

void AddOptions(UpOptions* options, config::OptionTable* table) {
  ClusterOptions* cluster = &options->cluster;
  table->AddString("model", &cluster->model, "GGUF file of the model.", 'm');
  table->AddUint("prefill", &cluster->prefill, 0, 64,
                 "Prefill workers; 0: the decode workers read prompts too.");
  table->AddUint("decode", &cluster->decode, 0, 64, "Decode workers.");
  table->AddBool("kvstore", &cluster->kvstore,
                 "Run a KV store; prefill workers need it.");
  table->AddString("http", &cluster->http,
                   "The gateway's HTTP address; port 0 picks one.");
  table->AddString("grpc", &cluster->grpc,
                   "The gateway's gRPC address; port 0 picks one.");
  table->AddUint("threads", &cluster->threads, 0, 1024,
                 "Compute threads of each worker; 0: its share of the cores.",
                 't');
  table->AddBytes("kv-memory", &cluster->kv_memory,
                  "KV cache of each worker; 0: the worker's default.");
  table->AddBytes("store-capacity", &cluster->store_capacity,
                  "Memory of the KV store; 0: the store's default.");
  table->AddDuration("lease-ttl", &cluster->lease_ttl,
                     "How long a lease lives; 0: the default.");
  table->AddDuration("drain-timeout", &cluster->drain_timeout,
                     "How long each role may take to finish at the end.");
  table->AddStrings("worker-flag", &cluster->worker_flags,
                    "A flag for every worker, as --name=value.");
  table->AddStrings("gateway-flag", &cluster->gateway_flags,
                    "A flag for the gateway.");
  table->AddStrings("kvstore-flag", &cluster->kvstore_flags,
                    "A flag for the KV store.");
  table->AddString("log-dir", &options->log_dir,
                   "Folder for the processes' logs; empty: a temporary one.");
  table->AddString("state-file", &options->state_file,
                   "JSON file that says what runs where, kept up to date.");
  table->Require("model");
}

absl::StatusOr<std::string> MakeLogDir(
    const std::string& wanted,
    const std::map<std::string, std::string>& environment) {
  if (!wanted.empty()) {
    std::error_code error;
    std::filesystem::create_directories(wanted, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("log folder ", wanted, ": ", error.message()));
    }
    return wanted;
  }
  const auto variable = environment.find("TMPDIR");
  std::string path = absl::StrCat(
      variable != environment.end() ? variable->second : std::string("/tmp"),
      "/baton-up-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("log folder ", path, ": ", std::strerror(errno)));
  }
  return path;
}

void PrintAddresses(const ClusterState& state) {
  std::vector<std::vector<std::string>> rows = {
      {"process", "pid", "grpc", "http"}};
  for (const ProcessView& process : state.processes) {
    rows.push_back(
        {process.name, absl::StrCat(process.pid), process.grpc, process.http});
  }
  std::printf("%slogs in %s\n", RenderTable(rows, false).c_str(),
              state.log_dir.c_str());
  std::fflush(stdout);
}

// The share of the model that is loaded, over all workers.
double LoadRatio(const ClusterState& state) {
  double sum = 0;
  int workers = 0;
  for (const ProcessView& process : state.processes) {
    if (process.role != "prefill" && process.role != "decode") continue;
    ++workers;
    const auto metrics =
        HttpGet(process.http, "/metrics", absl::Milliseconds(300));
    if (!metrics.ok()) continue;
    sum += FirstSample(metrics->body, "baton_model_load_progress_ratio")
               .value_or(0);
  }
  return workers == 0 ? 0 : sum / workers;
}

class Cluster {
 public:
  Cluster(const UpOptions& options, std::string binary_dir, Signals* signals)
      : options_(options),
        binary_dir_(std::move(binary_dir)),
        progress_(isatty(STDERR_FILENO) != 0),
        supervisor_(MakeOptions(), signals, &clock_) {}

  // Until a signal ends it (OK) or it cannot start.
  absl::Status Run() {
    absl::Status status = Start();
    if (status.ok()) {
      PrintAddresses(supervisor_.State());
      status = AwaitReady();
    }
    if (status.ok()) {
      while (supervisor_.Watch(absl::Hours(1))) {
      }
    }
    progress_.Clear();
    std::fprintf(stderr, "ending: gateway, prefill, decode, kvstore\n");
    supervisor_.Drain();
    return absl::IsCancelled(status) ? absl::OkStatus() : status;
  }

 private:
  Supervisor::Options MakeOptions() {
    Supervisor::Options made;
    made.log_dir = options_.log_dir;
    made.state_file = options_.state_file;
    // Later than the processes' own bound, which is the kinder end.
    made.drain_timeout = options_.cluster.drain_timeout + absl::Seconds(5);
    made.report = [this](const std::string& line) {
      progress_.Clear();
      std::fprintf(stderr, "%s\n", line.c_str());
    };
    return made;
  }

  // Of a role that has one process, which was started.
  std::string AddressOf(const std::string& role) const {
    const ClusterState state = supervisor_.State();
    const ProcessView* process = state.Find(role);
    return process != nullptr ? process->grpc : "";
  }

  absl::Status Start() {
    std::string kvstore;
    if (options_.cluster.kvstore) {
      BATON_RETURN_IF_ERROR(
          supervisor_.StartGroup({KvStoreSpec(options_.cluster, binary_dir_)}));
      kvstore = AddressOf("kvstore");
    }
    const ProcessSpec gateway = GatewaySpec(options_.cluster, binary_dir_);
    BATON_RETURN_IF_ERROR(supervisor_.StartGroup({gateway}));
    const uint32_t cores = std::thread::hardware_concurrency();
    BATON_RETURN_IF_ERROR(supervisor_.StartGroup(WorkerSpecs(
        options_.cluster, binary_dir_, cores, AddressOf("gateway"), kvstore)));
    supervisor_.SetArguments(
        gateway.name, RestartArguments(gateway, supervisor_.State().processes));
    return absl::OkStatus();
  }

  absl::Status AwaitReady() {
    while (true) {
      const ClusterState state = supervisor_.State();
      const ProcessView* gateway = state.Find("gateway");
      const auto ready =
          HttpGet(gateway->http, "/readyz", absl::Milliseconds(500));
      if (ready.ok() && ready->status == 200) {
        progress_.Clear();
        supervisor_.SetReady();
        std::printf("ready: http://%s grpc %s\n", gateway->http.c_str(),
                    gateway->grpc.c_str());
        std::fflush(stdout);
        return absl::OkStatus();
      }
      for (const ProcessView& process : state.processes) {
        if (process.restarts < kMaxRestartsWhileLoading) continue;
        return absl::UnavailableError(absl::StrCat(
            process.name, " does not stay up:\n",
            LastLines(absl::StrCat(options_.log_dir, "/", process.name, ".log"),
                      10)));
      }
      progress_.Show(LoadRatio(state), clock_.Monotonic());
      if (!supervisor_.Watch(absl::Milliseconds(200))) {
        return absl::CancelledError("interrupted");
      }
    }
  }

  const UpOptions options_;
  const std::string binary_dir_;
  SystemClock clock_;
  LoadProgress progress_;
  Supervisor supervisor_;
};

}  // namespace

absl::StatusOr<std::string> ExecutableFolder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError(error.message());
  return path.parent_path().string();
}

int RunUp(int argc, const char* const* argv, Signals* signals) {
  UpOptions options;
  config::OptionTable table("baton up", "up",
                            "Starts a whole cluster on this machine.");
  AddOptions(&options, &table);
  const auto environment = config::ProcessEnvironment();
  const auto outcome = table.Parse(argc, argv, environment);
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  const absl::Status valid = CheckOptions(options.cluster);
  if (!valid.ok()) {
    std::fprintf(stderr, "baton up: %s\n",
                 std::string(valid.message()).c_str());
    return config::kExitConfig;
  }
  const auto folder = ExecutableFolder();
  const auto log_dir = MakeLogDir(options.log_dir, environment);
  absl::Status status = folder.ok() ? log_dir.status() : folder.status();
  if (status.ok()) {
    options.log_dir = *log_dir;
    status = Cluster(options, *folder, signals).Run();
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "baton up: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace baton::cli
