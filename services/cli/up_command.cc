#include "services/cli/up_command.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "services/base/clock.h"
#include "services/base/status_macros.h"
#include "services/cli/base/progress_line.h"
#include "services/cli/base/table.h"
#include "services/cli/client/http_client.h"
#include "services/cli/client/metrics_text.h"
#include "services/cli/cluster/configuration_check.h"
#include "services/cli/cluster/log_folder.h"
#include "services/cli/model_check.h"
#include "services/config/option_table.h"
#include "services/process/cores.h"

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
  table->AddBool("insecure", &cluster->insecure,
                 "Let the gateway listen beyond loopback; nothing is encrypted "
                 "and nobody is asked who they are. The other processes stay "
                 "on loopback.");
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
                   "Folder for the processes' logs; empty: a temporary one, "
                   "kept only after a fault.");
  table->AddString("state-file", &options->state_file,
                   "JSON file that says what runs where, kept up to date and "
                   "removed at the end.");
  table->Require("model");
}

// What the programs that will be started say of their configuration: flags that
// are passed on, their variables, their sections of the file. What else may be
// wrong with them shows when they start.
absl::Status CheckProcesses(const ClusterOptions& options,
                            const std::string& binary_dir) {
  constexpr char kAnyAddress[] = "127.0.0.1:0";
  std::vector<ProcessSpec> specs = {GatewaySpec(options, binary_dir)};
  if (options.kvstore) specs.push_back(KvStoreSpec(options, binary_dir));
  // All workers have the same options but for their names and roles.
  specs.push_back(WorkerSpecs(options, binary_dir, 1, kAnyAddress,
                              options.kvstore ? kAnyAddress : "")
                      .front());
  for (const ProcessSpec& spec : specs) {
    const absl::Status status = CheckConfiguration(spec);
    if (absl::IsInvalidArgument(status)) return status;
  }
  return absl::OkStatus();
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
        progress_(stderr, isatty(STDERR_FILENO) != 0),
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

  bool had_faults() const { return supervisor_.had_faults(); }

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
    const uint32_t cores = process::UsableCores();
    BATON_RETURN_IF_ERROR(supervisor_.StartGroup(WorkerSpecs(
        options_.cluster, binary_dir_, cores, AddressOf("gateway"), kvstore)));
    supervisor_.SetArguments(
        gateway.name, RestartArguments(gateway, supervisor_.State().processes));
    return absl::OkStatus();
  }

  void ShowLoading(double ratio) {
    constexpr int kBarWidth = 40;
    constexpr char kLabel[] = "loading the model";
    progress_.Show(
        progress_.terminal()
            ? RenderProgress(kLabel, ratio, kBarWidth)
            : absl::StrCat(kLabel, ": ", static_cast<int>(ratio * 100), " %"),
        clock_.Monotonic());
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
      ShowLoading(LoadRatio(state));
      if (!supervisor_.Watch(absl::Milliseconds(200))) {
        return absl::CancelledError("interrupted");
      }
    }
  }

  const UpOptions options_;
  const std::string binary_dir_;
  SystemClock clock_;
  ProgressLine progress_;
  Supervisor supervisor_;
};

absl::Status RunCluster(UpOptions* options, const std::string& binary_dir,
                        const std::string& temporary, Signals* signals) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<LogFolder> logs,
                         LogFolder::Create(options->log_dir, temporary));
  options->log_dir = logs->path();
  Cluster cluster(*options, binary_dir, signals);
  const absl::Status status = cluster.Run();
  if (!status.ok() || cluster.had_faults()) {
    logs->Keep();
    if (logs->temporary()) {
      std::fprintf(stderr, "logs are kept in %s\n", logs->path().c_str());
    }
  }
  return status;
}

}  // namespace

absl::StatusOr<std::string> ExecutableFolder() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError(error.message());
  return path.parent_path().string();
}

int RunUp(int argc, const char* const* argv, Signals* signals) {
  UpOptions options;
  const auto folder = ExecutableFolder();
  config::OptionTable table("baton up", "up",
                            "Starts a whole cluster on this machine.");
  AddOptions(&options, &table);
  table.SetCheck([&] {
    options.cluster.config_file = table.config_file();
    BATON_RETURN_IF_ERROR(CheckOptions(options.cluster));
    return folder.ok() ? CheckProcesses(options.cluster, *folder)
                       : absl::OkStatus();
  });
  const auto environment = config::ProcessEnvironment();
  const auto outcome = table.Parse(argc, argv, environment);
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  absl::Status status =
      folder.ok() ? CheckModelFile(options.cluster.model) : folder.status();
  const auto temporary = environment.find("TMPDIR");
  if (status.ok()) {
    status = RunCluster(
        &options, *folder,
        temporary != environment.end() ? temporary->second : "/tmp", signals);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "baton up: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace baton::cli
