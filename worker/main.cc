// baton-worker: the composition root of prefill and decode workers.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kvstore/client/grpc_kvstore_client.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/log.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"
#include "services/config/option_table.h"
#include "services/gguf/gguf_header.h"
#include "services/process/cores.h"
#include "services/process/process_options.h"
#include "services/process/stop_signals.h"
#include "services/rpc/server.h"
#include "services/telemetry/metrics_http.h"
#include "services/telemetry/prometheus_metrics.h"
#include "services/text/tokenizer.h"
#include "worker/api/admin_service.h"
#include "worker/api/discovery_service.h"
#include "worker/api/model_service.h"
#include "worker/api/registration_client.h"
#include "worker/api/worker_runtime.h"
#include "worker/decode/decode_service.h"
#include "worker/handoff/admission_gate.h"
#include "worker/model/model.h"
#include "worker/prefill/prefill_service.h"

namespace baton::worker {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(5);
constexpr absl::Duration kStopGrace = absl::Seconds(1);

struct Options {
  std::string model;
  std::string role = "any";
  process::ProcessOptions process{.grpc = "127.0.0.1:9500",
                                  .http = "127.0.0.1:9501"};
  std::string kvstore;
  std::string gateway;
  std::string worker_id;
  uint32_t threads = 0;
  uint32_t local_workers = 1;
  uint32_t nice = 0;
  std::string cpus;
  uint64_t kv_memory = uint64_t{1} << 30;
  std::string kv_type = KvTypeName(KvType::kF16);
  uint32_t ctx_size = 0;
  uint32_t max_sequences = 16;
  uint32_t max_batch_tokens = 512;
  std::string mtp_model;
  std::string draft_mode = "none";
  uint32_t draft_max = 8;
  bool draft_adaptive = true;
  double draft_p_min = 0;
  absl::Duration lease_ttl = absl::Seconds(10);
  absl::Duration reservation_ttl = absl::Minutes(10);
  std::string cache_dir;
};

void DeclareNetwork(Options* options, config::OptionTable* table) {
  options->process.Declare(table);
  table->AddChoice("role", &options->role, {"prefill", "decode", "any"},
                   "what this worker does");
  table->AddString("kvstore", &options->kvstore,
                   "host:port of the KV store; empty = none");
  table->AddString("gateway", &options->gateway,
                   "host:port of a gateway to register with; empty = none");
  table->AddString("worker-id", &options->worker_id,
                   "name in the cluster; empty = drawn at random");
  table->AddDuration("lease-ttl", &options->lease_ttl,
                     "life of a store lease without a heartbeat");
  table->AddDuration("reservation-ttl", &options->reservation_ttl,
                     "how long a decode reservation waits for its start");
}

void DeclareModel(Options* options, config::OptionTable* table) {
  table->AddString("model", &options->model, "GGUF file", 'm');
  table->Require("model");
  table->AddUint("threads", &options->threads, 0, 1024,
                 "compute threads; 0 = usable cores / local workers", 't');
  table->AddUint("local-workers", &options->local_workers, 1, 256,
                 "workers that share this machine's cores");
  table->AddString("cpus", &options->cpus,
                   "CPUs to run on, such as 0-7,16; empty = all");
  table->AddUint("nice", &options->nice, 0, 19,
                 "how much this process yields the cores to others; `baton up` "
                 "sets it for prefill");
  table->AddBytes("kv-memory", &options->kv_memory, "memory for KV blocks");
  table->AddChoice("kv-type", &options->kv_type,
                   {KvTypeName(KvType::kF16), KvTypeName(KvType::kF32)},
                   "element type of KV rows; equal in all of a cluster");
  table->AddUint("ctx-size", &options->ctx_size, 0, 1u << 24,
                 "longest sequence in tokens; 0 = the model's");
  table->AddUint("max-sequences", &options->max_sequences, 1, 1024,
                 "sequences that run at once");
  table->AddUint("max-batch-tokens", &options->max_batch_tokens, 1, 65536,
                 "rows of one step");
  table->AddString("mtp-model", &options->mtp_model,
                   "GGUF file with an MTP block for the model; empty = the "
                   "model's own");
  table->AddString("draft-mode", &options->draft_mode,
                   "what drafts tokens for a step to verify, in this order: "
                   "none, ngram, mtp or ngram,mtp; changes no token");
  table->AddUint("draft-max", &options->draft_max, 1, 64,
                 "tokens drafted for a sequence in a step at most");
  table->AddBool("draft-adaptive", &options->draft_adaptive,
                 "draft only as many as pay, by measured costs and acceptance; "
                 "else always --draft-max");
  table->AddDouble("draft-p-min", &options->draft_p_min, 0, 1,
                   "how likely the MTP block must think a token to draft it");
  table->AddString("cache-dir", &options->cache_dir,
                   "where digests of model files are remembered");
}

absl::Status Check(const Options& options) {
  if (options.lease_ttl < absl::Milliseconds(100) ||
      options.reservation_ttl <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--lease-ttl (at least 100ms) and --reservation-ttl must be positive");
  }
  if (!options.cpus.empty()) {
    const auto cpus = process::ParseCpuList(options.cpus);
    if (!cpus.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cpus: ", cpus.status().message()));
    }
  }
  const auto drafts = DraftMethods::Parse(options.draft_mode);
  if (!drafts.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--draft-mode: ", drafts.status().message()));
  }
  return options.process.Check();
}

std::string DefaultCacheDirectory(
    const std::map<std::string, std::string>& environment) {
  const auto find = [&](const char* name) {
    auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  };
  if (const std::string cache = find("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/baton/digests";
  }
  const std::string home = find("HOME");
  return home.empty() ? "" : home + "/.cache/baton/digests";
}

// Workers see tokens only, but nobody could serve a model whose text a gateway
// cannot read: it is refused here, where the file is named.
absl::Status CheckText(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(auto header, gguf::GgufHeader::FromFile(path));
  const absl::Status usable = text::Tokenizer::Create(*header).status();
  if (usable.ok()) return usable;
  return absl::Status(usable.code(),
                      absl::StrCat(path, ": ", usable.message()));
}

class Worker {
 public:
  explicit Worker(const Options& options)
      : options_(options),
        epoch_(RandomIdentity()),
        table_({options.max_sequences, options.reservation_ttl}, &clock_,
               timers_.get()) {
    ready_gauge_ = metrics_->GetGauge("baton_ready", "Readiness");
    load_ = metrics_->GetGauge("baton_model_load_progress_ratio",
                               "Share of the model file that is loaded");
  }

  // Serves health, metrics and discovery from here on.
  absl::Status Listen() {
    rpc::Server::Options server;
    server.address = options_.process.grpc;
    std::vector<grpc::Service*> services = {&discovery_, &models_, &admin_};
    if (options_.role != "decode") services.push_back(&prefill_);
    if (options_.role != "prefill") services.push_back(&decode_);
    BATON_ASSIGN_OR_RETURN(
        server_, rpc::Server::Start(server, services, metrics_.get()));
    BATON_ASSIGN_OR_RETURN(http_, telemetry::MetricsHttp::Start(
                                      options_.process.http, metrics_.get(),
                                      [this] { return ready_.load(); }));
    process::PrintListening("baton-worker", server_->address(),
                            http_->address());
    if (!options_.gateway.empty()) {
      registration_ = std::make_unique<RegistrationClient>(
          RegistrationClient::Options{options_.gateway,
                                      WorkerId(options_.worker_id),
                                      server_->address(), epoch_},
          timers_.get());
    }
    return absl::OkStatus();
  }

  // Any thread; takes as long as the file is large.
  absl::Status LoadModel() {
    absl::Duration logged = clock_.Monotonic();
    Model::Options model;
    model.path = options_.model;
    model.digest_cache_directory = options_.cache_dir;
    model.kv_type = options_.kv_type == KvTypeName(KvType::kF32) ? KvType::kF32
                                                                 : KvType::kF16;
    model.mtp_path = options_.mtp_model;
    model.mtp = draft_methods().Has(DraftMethod::kMtp);
    model.progress = [&](double ratio) {
      load_->Set(ratio);
      if (clock_.Monotonic() - logged < kProgressInterval) return;
      logged = clock_.Monotonic();
      Log(LogLevel::kInfo, "loading model", {{"progress", ratio}});
    };
    BATON_RETURN_IF_ERROR(CheckText(options_.model));
    BATON_ASSIGN_OR_RETURN(model_, Model::Load(model));
    load_->Set(1);
    return absl::OkStatus();
  }

  // Builds everything that needs the model, then opens.
  absl::Status Open() {
    const ModelDescription& model = model_->description();
    if (!options_.kvstore.empty()) {
      kvstore::GrpcKvStoreClient::Options client;
      client.address = options_.kvstore;
      client.model_name = model.name;
      store_ =
          kvstore::GrpcKvStoreClient::Create(client, metrics_.get(), &clock_);
    }
    WorkerRuntime::Options runtime;
    runtime.kv_memory_bytes = options_.kv_memory;
    runtime.context_length = options_.ctx_size;
    runtime.max_sequences = options_.max_sequences;
    runtime.max_batch_tokens = options_.max_batch_tokens;
    runtime.threads = ComputeThreads();
    runtime.lease_ttl = options_.lease_ttl;
    runtime.draft_methods = draft_methods();
    runtime.most_drafts = options_.draft_max;
    runtime.adaptive_drafts = options_.draft_adaptive;
    runtime.least_draft_probability = static_cast<float>(options_.draft_p_min);
    runtime.epoch = epoch_;
    BATON_ASSIGN_OR_RETURN(
        runtime_, WorkerRuntime::Create(runtime, model_.get(), store_.get(),
                                        &clock_, metrics_.get()));
    gate_.Open(&runtime_->context());
    SetReady(true);
    Log(LogLevel::kInfo, "ready",
        {{"role", options_.role},
         {"grpc", server_->address()},
         {"model", model.name},
         {"context", runtime_->context().context_length},
         {"kv_blocks", runtime_->context().pool->Stats().total},
         {"threads", runtime.threads},
         {"epoch", epoch_.value()}});
    return absl::OkStatus();
  }

  // Refuses new requests, lets streams end, gives leases back.
  void Stop(absl::Duration patience) {
    gate_.Drain();
    SetReady(false);
    Log(LogLevel::kInfo, "draining", {{"requests", gate_.inside()}});
    const bool idle = gate_.AwaitIdle(patience);
    registration_.reset();
    server_->Stop(kStopGrace);
    if (runtime_ != nullptr) runtime_->Stop();
    timers_.reset();
    http_->Stop();
    Log(idle ? LogLevel::kInfo : LogLevel::kWarning, "stopped",
        {{"drained", idle}});
  }

 private:
  void SetReady(bool ready) {
    ready_ = ready;
    ready_gauge_->Set(ready ? 1 : 0);
    if (server_ != nullptr) server_->SetServing(ready);
  }

  // Check has parsed it.
  DraftMethods draft_methods() const {
    return *DraftMethods::Parse(options_.draft_mode);
  }

  int ComputeThreads() const {
    if (options_.threads > 0) return static_cast<int>(options_.threads);
    // CPUs that were named are this worker's own.
    const uint32_t sharers = options_.cpus.empty() ? options_.local_workers : 1;
    return static_cast<int>(std::max(1u, process::UsableCores() / sharers));
  }

  static v1::ServerRole RoleOf(const std::string& role) {
    return role == "prefill"  ? v1::SERVER_ROLE_PREFILL
           : role == "decode" ? v1::SERVER_ROLE_DECODE
                              : v1::SERVER_ROLE_ANY;
  }

  const Options options_;
  const Epoch epoch_;
  SystemClock clock_;
  const std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("worker");
  telemetry::Gauge* ready_gauge_ = nullptr;
  telemetry::Gauge* load_ = nullptr;
  std::atomic<bool> ready_ = false;

  // Filled by LoadModel and Open; the server is stopped before they go.
  std::unique_ptr<Model> model_;
  std::unique_ptr<kvstore::KvStoreClient> store_;
  std::unique_ptr<WorkerRuntime> runtime_;
  AdmissionGate gate_;

  std::unique_ptr<ThreadPoolExecutor> timers_ =
      std::make_unique<ThreadPoolExecutor>(ThreadPoolExecutor::Options{1});
  ReservationTable table_;
  PrefillService prefill_{&gate_};
  DecodeService decode_{&gate_, &table_};
  DiscoveryService discovery_{
      {RoleOf(options_.role), BATON_VERSION, epoch_, options_.max_sequences,
       [this] { return table_.size(); }},
      &gate_};
  ModelService models_{&gate_};
  AdminService admin_{&gate_, &clock_, timers_.get(),
                      [this] { SetReady(false); }};
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<telemetry::MetricsHttp> http_;
  std::unique_ptr<RegistrationClient> registration_;
};

absl::Status Serve(const Options& options) {
  // Threads inherit both, so they come before the first of them.
  process::YieldCores(options.nice);
  if (!options.cpus.empty()) {
    BATON_ASSIGN_OR_RETURN(const auto cpus,
                           process::ParseCpuList(options.cpus));
    BATON_RETURN_IF_ERROR(process::RunOn(cpus));
  }
  process::StopSignals signals;
  Worker worker(options);
  BATON_RETURN_IF_ERROR(worker.Listen());
  absl::Status loaded;
  std::jthread loader([&] {
    loaded = worker.LoadModel();
    signals.Wake();
  });
  if (!signals.AwaitWake()) {
    // Loading cannot be interrupted, and nobody is being served.
    Log(LogLevel::kInfo, "stopped while loading");
    std::_Exit(0);
  }
  loader.join();
  if (loaded.ok()) loaded = worker.Open();
  if (loaded.ok()) signals.AwaitStop();
  worker.Stop(options.process.drain_timeout);
  return loaded;
}

int Main(int argc, char** argv) {
  const auto environment = config::ProcessEnvironment();
  Options options;
  options.cache_dir = DefaultCacheDirectory(environment);
  config::OptionTable table("baton-worker", "worker",
                            "Computes prompts, answers, or both.");
  DeclareModel(&options, &table);
  DeclareNetwork(&options, &table);
  table.SetCheck([&options] { return Check(options); });
  const auto outcome = table.Parse(argc, argv, environment);
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  if (options.worker_id.empty()) options.worker_id = RandomName("worker-");
  options.process.SetUpLog(options.worker_id);
  const absl::Status served = Serve(options);
  if (served.ok()) return 0;
  std::fprintf(stderr, "baton-worker: %s\n",
               std::string(served.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace baton::worker

int main(int argc, char** argv) { return baton::worker::Main(argc, argv); }
