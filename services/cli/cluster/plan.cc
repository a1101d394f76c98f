#include "services/cli/cluster/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

// Clients first, then those who hold what the others still need.
enum DrainRank { kGateway, kPrefill, kDecode, kKvStore };

void Append(const std::vector<std::string>& flags, ProcessSpec* spec) {
  spec->arguments.insert(spec->arguments.end(), flags.begin(), flags.end());
}

// Of prefill workers: a prompt takes what running streams leave of the cores.
constexpr char kPrefillNice[] = "--nice=10";

// What every process gets first.
std::vector<std::string> SharedArguments(const ClusterOptions& options) {
  std::vector<std::string> arguments = {absl::StrCat(
      "--drain-timeout=", absl::FormatDuration(options.drain_timeout))};
  if (!options.config_file.empty()) {
    arguments.push_back("--config=" + options.config_file);
  }
  return arguments;
}

void AppendLeaseFlag(const ClusterOptions& options, ProcessSpec* spec) {
  if (options.lease_ttl <= absl::ZeroDuration()) return;
  spec->arguments.push_back(
      absl::StrCat("--lease-ttl=", absl::FormatDuration(options.lease_ttl)));
}

}  // namespace

absl::Status CheckOptions(const ClusterOptions& options) {
  if (options.decode == 0) {
    return absl::InvalidArgumentError(
        "--decode 0: at least one decode worker is needed to write answers");
  }
  if (options.prefill > 0 && !options.kvstore) {
    return absl::InvalidArgumentError(
        "--no-kvstore needs --prefill 0: a prefill worker hands its work over "
        "through the store");
  }
  return absl::OkStatus();
}

uint32_t WorkerThreads(const ClusterOptions& options, uint32_t cores) {
  if (options.threads > 0) return options.threads;
  return std::max<uint32_t>(1, cores / (options.prefill + options.decode));
}

ProcessSpec KvStoreSpec(const ClusterOptions& options,
                        const std::string& binary_dir) {
  ProcessSpec spec;
  spec.name = "kvstore";
  spec.role = "kvstore";
  spec.binary = binary_dir + "/baton-kvstore";
  spec.drain_rank = kKvStore;
  spec.arguments = SharedArguments(options);
  if (options.store_capacity > 0) {
    spec.arguments.push_back(
        absl::StrCat("--capacity=", options.store_capacity));
  }
  AppendLeaseFlag(options, &spec);
  Append(options.kvstore_flags, &spec);
  return spec;
}

ProcessSpec GatewaySpec(const ClusterOptions& options,
                        const std::string& binary_dir) {
  ProcessSpec spec;
  spec.name = "gateway";
  spec.role = "gateway";
  spec.binary = binary_dir + "/baton-gateway";
  spec.drain_rank = kGateway;
  spec.grpc = options.grpc;
  spec.http = options.http;
  spec.arguments = SharedArguments(options);
  if (options.insecure) spec.arguments.push_back("--insecure");
  Append(options.gateway_flags, &spec);
  return spec;
}

std::vector<ProcessSpec> WorkerSpecs(const ClusterOptions& options,
                                     const std::string& binary_dir,
                                     uint32_t cores, const std::string& gateway,
                                     const std::string& kvstore) {
  std::vector<ProcessSpec> specs;
  for (uint32_t i = 0; i < options.prefill + options.decode; ++i) {
    const bool prefill = i < options.prefill;
    ProcessSpec spec;
    spec.role = prefill ? "prefill" : "decode";
    spec.name = absl::StrCat(spec.role, "-", prefill ? i : i - options.prefill);
    spec.binary = binary_dir + "/baton-worker";
    spec.drain_rank = prefill ? kPrefill : kDecode;
    spec.arguments = SharedArguments(options);
    Append({"--role=" + spec.role, "--worker-id=" + spec.name,
            "--model=" + options.model, "--gateway=" + gateway,
            absl::StrCat("--threads=", WorkerThreads(options, cores))},
           &spec);
    if (prefill) spec.arguments.push_back(kPrefillNice);
    if (!kvstore.empty()) spec.arguments.push_back("--kvstore=" + kvstore);
    if (options.kv_memory > 0) {
      spec.arguments.push_back(absl::StrCat("--kv-memory=", options.kv_memory));
    }
    AppendLeaseFlag(options, &spec);
    Append(options.worker_flags, &spec);
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<std::string> RestartArguments(
    const ProcessSpec& gateway, const std::vector<ProcessView>& running) {
  std::vector<std::string> arguments = gateway.arguments;
  for (const ProcessView& process : running) {
    if (process.role != "prefill" && process.role != "decode") continue;
    arguments.push_back("--worker=" + process.grpc);
  }
  return arguments;
}

}  // namespace baton::cli
