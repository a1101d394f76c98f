// Picks the workers of a request from a cluster snapshot. Pure: the same
// snapshot, facts and exclusions give the same route. Thread-safe.
//
// Prefill and decode apart are used when both kinds are ready and the prompt
// is long enough; else one decode-capable worker does it all. Workers whose
// layout fingerprints differ are never paired.
#ifndef BATON_GATEWAY_ROUTING_ROUTER_H_
#define BATON_GATEWAY_ROUTING_ROUTER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "gateway/registry/cluster_snapshot.h"
#include "services/base/ids.h"

namespace baton::gateway {

// What a worker must equal to go on with a sequence that another one began:
// only then are its tokens the same, bit for bit.
struct SequenceIdentity {
  std::string model_digest;
  std::string layout_fingerprint;
  std::string numerics_id;
};

SequenceIdentity IdentityOf(const WorkerSnapshot& worker);

struct RouteFacts {
  uint32_t prompt_tokens = 0;
  // False once the first token is committed.
  bool may_prefill_remotely = true;
  std::optional<SequenceIdentity> pinned;
};

struct RouteExclusions {
  std::set<WorkerId> prefill;
  std::set<WorkerId> decode;
};

struct Route {
  std::optional<WorkerSnapshot> prefill;  // nullopt: decode computes the prompt
  WorkerSnapshot decode;
  std::string reason;  // for people: reports and logs
};

class Router {
 public:
  struct Options {
    // Prompts shorter than this are computed by the decode worker. 1 = any
    // prompt goes to a prefill worker when there is one.
    uint32_t min_remote_prompt_tokens = 1;
  };

  explicit Router(const Options& options) : options_(options) {}

  // nullopt: no decode-capable worker is ready and allowed.
  std::optional<Route> Pick(const ClusterSnapshot& cluster,
                            const RouteFacts& facts,
                            const RouteExclusions& exclusions) const;

  // A prefill worker for `decode`, least loaded first; nullopt if none.
  std::optional<WorkerSnapshot> PickPrefill(
      const ClusterSnapshot& cluster, const WorkerSnapshot& decode,
      const RouteExclusions& exclusions) const;

  const Options& options() const { return options_; }

 private:
  const Options options_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_ROUTING_ROUTER_H_
