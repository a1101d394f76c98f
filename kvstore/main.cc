// baton-kvstore: the composition root of the KV store.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "kvstore/api/kvstore_service.h"
#include "kvstore/api/process_service.h"
#include "kvstore/index/object_index.h"
#include "kvstore/index/reaper.h"
#include "kvstore/store/memory_arena.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/log.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"
#include "services/config/option_table.h"
#include "services/process/process_options.h"
#include "services/process/stop_signals.h"
#include "services/rpc/server.h"
#include "services/telemetry/metrics_http.h"
#include "services/telemetry/prometheus_metrics.h"

namespace baton::kvstore {
namespace {

struct Options {
  process::ProcessOptions process{.grpc = "127.0.0.1:9400",
                                  .http = "127.0.0.1:9401",
                                  .drain_timeout = absl::Seconds(10)};
  uint64_t capacity_bytes = uint64_t{1} << 30;
  uint64_t read_slack_bytes = uint64_t{64} << 20;
  absl::Duration lease_ttl = absl::Seconds(10);
  absl::Duration reap_interval = absl::Milliseconds(500);
};

void Declare(Options* options, config::OptionTable* table) {
  options->process.Declare(table);
  table->AddBytes("capacity", &options->capacity_bytes,
                  "bound of all stored payloads together");
  table->AddBytes("read-slack", &options->read_slack_bytes,
                  "memory beyond the capacity, for dropped objects that are "
                  "still read and for reuse");
  table->AddDuration("lease-ttl", &options->lease_ttl,
                     "longest lease that is granted");
  table->AddDuration("reap-interval", &options->reap_interval,
                     "how often expired leases are ended");
}

absl::Status Check(const Options& options) {
  if (options.capacity_bytes == 0) {
    return absl::InvalidArgumentError("--capacity must not be 0");
  }
  if (options.lease_ttl <= absl::ZeroDuration() ||
      options.reap_interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--lease-ttl and --reap-interval must be positive");
  }
  return options.process.Check();
}

// Until no lease is held, the time is over or a second signal comes.
void AwaitLeases(const ObjectIndex& index, const Clock& clock,
                 absl::Duration timeout, process::StopSignals* signals) {
  const absl::Duration deadline = clock.Monotonic() + timeout;
  while (index.GetStat().leases > 0 && clock.Monotonic() < deadline) {
    if (signals->AwaitStopFor(absl::Milliseconds(50))) return;
  }
}

absl::Status Serve(const Options& options) {
  process::StopSignals signals;
  SystemClock clock;
  const auto metrics = telemetry::PrometheusMetrics::Create("kvstore");
  MemoryArena arena({options.capacity_bytes + options.read_slack_bytes,
                     options.read_slack_bytes});
  ObjectIndex::Options index_options;
  index_options.epoch = Epoch(RandomIdentity());
  index_options.capacity_bytes = options.capacity_bytes;
  index_options.max_lease_ttl = options.lease_ttl;
  ObjectIndex index(index_options, &arena, &clock, metrics.get());
  Reaper reaper(&index, options.reap_interval);

  std::atomic<bool> ready = false;
  std::atomic<rpc::Server*> serving = nullptr;
  const auto begin_drain = [&] {
    ready = false;
    if (rpc::Server* server = serving) server->SetServing(false);
    index.StopAdmission();
  };
  ThreadPoolExecutor executor({});
  KvStoreService service(&index, &clock, metrics.get());
  DiscoveryService discovery(&index, BATON_VERSION);
  AdminService admin(&index, &clock, &executor, begin_drain);
  rpc::Server::Options server_options;
  server_options.address = options.process.grpc;
  BATON_ASSIGN_OR_RETURN(
      const std::unique_ptr<rpc::Server> server,
      rpc::Server::Start(server_options, {&service, &discovery, &admin},
                         metrics.get()));
  serving = server.get();
  BATON_ASSIGN_OR_RETURN(
      const std::unique_ptr<telemetry::MetricsHttp> http,
      telemetry::MetricsHttp::Start(options.process.http, metrics.get(),
                                    [&] { return ready.load(); }));
  server->SetServing(true);
  ready = true;
  Log(LogLevel::kInfo, "store ready",
      {{"grpc", server->address()},
       {"http", http->address()},
       {"epoch", index.epoch().value()},
       {"capacity_bytes", options.capacity_bytes}});
  process::PrintListening("baton-kvstore", server->address(), http->address());

  signals.AwaitStop();
  begin_drain();
  Log(LogLevel::kInfo, "draining", {{"leases", index.GetStat().leases}});
  AwaitLeases(index, clock, options.process.drain_timeout, &signals);
  const uint64_t left = index.GetStat().leases;
  server->Stop(absl::Seconds(1));
  serving = nullptr;
  http->Stop();
  Log(left == 0 ? LogLevel::kInfo : LogLevel::kWarning, "stopped",
      {{"leases", left}});
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  config::OptionTable table(
      "baton-kvstore", "kvstore",
      "Stores KV blocks by prefix key, for workers to share.");
  Declare(&options, &table);
  table.SetCheck([&options] { return Check(options); });
  const config::OptionTable::Outcome outcome =
      table.Parse(argc, argv, config::ProcessEnvironment());
  if (outcome.exit) {
    std::fputs(outcome.output.c_str(), outcome.code == 0 ? stdout : stderr);
    return outcome.code;
  }
  options.process.SetUpLog("kvstore");
  const absl::Status served = Serve(options);
  if (served.ok()) return 0;
  std::fprintf(stderr, "baton-kvstore: %s\n",
               std::string(served.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace baton::kvstore

int main(int argc, char** argv) { return baton::kvstore::Main(argc, argv); }
