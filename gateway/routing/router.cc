#include "gateway/routing/router.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace baton::gateway {
namespace {

// Sequences per slot plus the share of the KV pool in use. The last load
// report and this gateway's own count overlap, so the larger one counts.
double PredictedLoad(const WorkerSnapshot& worker) {
  const double sequences =
      std::max(worker.running + worker.waiting, worker.inflight);
  const double slots = std::max<uint32_t>(1, worker.max_sequences);
  const double blocks =
      worker.kv_blocks_total == 0
          ? 0
          : static_cast<double>(worker.kv_blocks_used) / worker.kv_blocks_total;
  return sequences / slots + blocks;
}

bool IsBetter(const WorkerSnapshot& a, const WorkerSnapshot* b) {
  if (b == nullptr) return true;
  return std::make_tuple(PredictedLoad(a), a.inflight, a.id) <
         std::make_tuple(PredictedLoad(*b), b->inflight, b->id);
}

bool Matches(const WorkerSnapshot& worker, const SequenceIdentity& identity) {
  return worker.model_digest == identity.model_digest &&
         worker.layout_fingerprint == identity.layout_fingerprint &&
         worker.numerics_id == identity.numerics_id;
}

}  // namespace

SequenceIdentity IdentityOf(const WorkerSnapshot& worker) {
  return {worker.model_digest, worker.layout_fingerprint, worker.numerics_id};
}

std::optional<WorkerSnapshot> Router::PickPrefill(
    const ClusterSnapshot& cluster, const WorkerSnapshot& decode,
    const RouteExclusions& exclusions) const {
  const WorkerSnapshot* best = nullptr;
  for (const WorkerSnapshot& worker : cluster.workers) {
    // A worker of both roles helps only a worker that cannot prefill well
    // itself: two such workers each do their own requests instead.
    const bool suits =
        worker.role == WorkerRole::kPrefill ||
        (worker.role == WorkerRole::kAny && decode.role == WorkerRole::kDecode);
    if (!worker.ready || !suits || worker.id == decode.id) continue;
    if (exclusions.prefill.count(worker.id) > 0) continue;
    if (!Matches(worker, IdentityOf(decode))) continue;
    if (IsBetter(worker, best)) best = &worker;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<Route> Router::Pick(const ClusterSnapshot& cluster,
                                  const RouteFacts& facts,
                                  const RouteExclusions& exclusions) const {
  const WorkerSnapshot* best = nullptr;
  for (const WorkerSnapshot& worker : cluster.workers) {
    if (!worker.ready || worker.role == WorkerRole::kPrefill) continue;
    if (exclusions.decode.count(worker.id) > 0) continue;
    if (facts.pinned.has_value() && !Matches(worker, *facts.pinned)) continue;
    if (IsBetter(worker, best)) best = &worker;
  }
  if (best == nullptr) return std::nullopt;
  Route route{std::nullopt, *best, ""};
  if (!facts.may_prefill_remotely) {
    route.reason = "resume: tokens are committed already";
  } else if (facts.prompt_tokens < options_.min_remote_prompt_tokens) {
    route.reason =
        absl::StrCat("decode alone: prompt of ", facts.prompt_tokens,
                     " tokens is below ", options_.min_remote_prompt_tokens);
  } else {
    route.prefill = PickPrefill(cluster, *best, exclusions);
    route.reason = route.prefill.has_value()
                       ? "prefill and decode apart: least predicted load"
                       : "decode alone: no prefill worker is ready";
  }
  return route;
}

}  // namespace baton::gateway
