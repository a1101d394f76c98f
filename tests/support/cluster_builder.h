// Worker snapshots for tests of routing and flow.
#ifndef BATON_TESTS_SUPPORT_CLUSTER_BUILDER_H_
#define BATON_TESTS_SUPPORT_CLUSTER_BUILDER_H_

#include <algorithm>
#include <string>
#include <vector>

#include "gateway/registry/cluster_snapshot.h"

namespace baton::testing_support {

inline gateway::WorkerSnapshot MakeWorker(const std::string& id,
                                          gateway::WorkerRole role) {
  gateway::WorkerSnapshot worker;
  worker.id = WorkerId(id);
  worker.address = "address-of-" + id;
  worker.role = role;
  worker.ready = true;
  worker.state = "ready";
  worker.epoch = Epoch(1);
  worker.model_digest = "model";
  worker.layout_fingerprint = "layout";
  worker.numerics_id = "numerics";
  worker.max_sequences = 8;
  return worker;
}

inline gateway::ClusterSnapshot MakeCluster(
    std::vector<gateway::WorkerSnapshot> workers) {
  std::sort(workers.begin(), workers.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return {std::move(workers), 1};
}

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_CLUSTER_BUILDER_H_
