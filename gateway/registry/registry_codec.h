// Discovery messages to the registry's values and back.
#ifndef BATON_GATEWAY_REGISTRY_REGISTRY_CODEC_H_
#define BATON_GATEWAY_REGISTRY_REGISTRY_CODEC_H_

#include "baton/v1/discovery.pb.h"
#include "gateway/registry/cluster_snapshot.h"
#include "gateway/registry/worker_probe.h"

namespace baton::gateway {

// True if the server is one that takes work; a gateway or a store is not.
bool IsWorkerRole(v1::ServerRole role);
WorkerFacts FactsFromProto(const v1::ServerInfo& info);
WorkerLoad LoadFromProto(const v1::ServerLoad& load);
v1::WorkerView WorkerViewToProto(const WorkerSnapshot& worker);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_REGISTRY_CODEC_H_
