// From the options of `baton up` to the processes it starts: the only place
// that knows the other programs' flags. Pure.
#ifndef BATON_SERVICES_CLI_CLUSTER_PLAN_H_
#define BATON_SERVICES_CLI_CLUSTER_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/cli/cluster/supervisor.h"

namespace baton::cli {

struct ClusterOptions {
  std::string model;
  uint32_t prefill = 1;  // workers; 0 = the decode workers read prompts too
  uint32_t decode = 1;
  bool kvstore = true;
  std::string http = "127.0.0.1:8080";  // the gateway's
  std::string grpc = "127.0.0.1:9300";
  uint32_t threads = 0;         // of each worker; 0 = its share of the cores
  uint64_t kv_memory = 0;       // of each worker; 0 = the worker's default
  uint64_t store_capacity = 0;  // 0 = the store's default
  absl::Duration lease_ttl;     // 0 = the programs' defaults
  absl::Duration drain_timeout = absl::Seconds(30);
  bool insecure = false;    // the gateway may listen beyond loopback
  std::string config_file;  // every process reads its section; empty = none
  // Passed on as they are.
  std::vector<std::string> worker_flags;
  std::vector<std::string> gateway_flags;
  std::vector<std::string> kvstore_flags;
};

// kInvalidArgument for a combination that cannot serve.
absl::Status CheckOptions(const ClusterOptions& options);

// max(1, cores / workers), unless the options say otherwise.
uint32_t WorkerThreads(const ClusterOptions& options, uint32_t cores);

ProcessSpec KvStoreSpec(const ClusterOptions& options,
                        const std::string& binary_dir);
// It starts before the workers, which announce themselves to it.
ProcessSpec GatewaySpec(const ClusterOptions& options,
                        const std::string& binary_dir);
// `gateway`, `kvstore`: gRPC addresses; `kvstore` empty = none.
std::vector<ProcessSpec> WorkerSpecs(const ClusterOptions& options,
                                     const std::string& binary_dir,
                                     uint32_t cores, const std::string& gateway,
                                     const std::string& kvstore);
// The gateway's arguments once the workers have addresses: a gateway that
// starts again then knows them at once, before their next heartbeat.
std::vector<std::string> RestartArguments(
    const ProcessSpec& gateway, const std::vector<ProcessView>& running);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_PLAN_H_
