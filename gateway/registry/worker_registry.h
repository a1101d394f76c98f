// The gateway's knowledge of its workers: who they are, whether they can admit
// and finish, and how loaded they are. Core: what it is told comes from the
// poller and from Register; what it gives is an immutable snapshot.
//
// The first worker that reports fixes the cluster's identity (model digest and
// layout fingerprint). A worker that differs is kept out, with its state saying
// so. When no worker of the cluster's identity is reachable any more, the next
// one that reports fixes it anew.
//
// Thread-safe; one mutex, never held across a call out.
#ifndef BATON_GATEWAY_REGISTRY_WORKER_REGISTRY_H_
#define BATON_GATEWAY_REGISTRY_WORKER_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gateway/registry/cluster_snapshot.h"
#include "gateway/registry/worker_probe.h"
#include "services/base/clock.h"
#include "services/base/ids.h"
#include "services/base/mutex.h"
#include "services/telemetry/metrics.h"

namespace baton::gateway {

class WorkerRegistry {
 public:
  struct Options {
    // A registered worker that sends no heartbeat for this long is forgotten.
    absl::Duration heartbeat_expiry = absl::Seconds(15);
    // Probes that must time out in a row before a worker counts as
    // unreachable; a refused connection counts at once.
    uint32_t timeouts_until_unreachable = 2;
    uint32_t max_workers = 1024;
  };

  // `clock` and `metrics` must outlive this.
  WorkerRegistry(const Options& options, const Clock* clock,
                 telemetry::MetricsRegistry* metrics);

  // A worker of the command line: never forgotten. Its id is its address until
  // it registers under a name. Idempotent.
  void AddStatic(const std::string& address);

  // The address at which this gateway listens: no worker is there.
  void SetOwnAddress(const std::string& address);

  // Announcement or heartbeat. Errors: kInvalidArgument (an id or address of
  // the wrong form, this gateway's own address, an id that another live address
  // holds), kResourceExhausted (max_workers, all of which have answered). When
  // the table is full, a registered worker that has never answered a probe
  // makes room, first one that has failed one, then the oldest: whoever
  // registers at random cannot keep workers out.
  absl::Status Register(const WorkerId& id, const std::string& address,
                        Epoch epoch);

  // Addresses to probe now; forgets registered workers whose heartbeat ended.
  std::vector<std::string> Addresses();
  // True until OnInfo after a start, a failure or a new epoch.
  bool NeedsInfo(const std::string& address) const;

  // True if the worker there has the cluster's model and layout.
  bool BelongsToCluster(const std::string& address) const;

  // Probe results; unknown addresses are ignored (forgotten meanwhile).
  void OnInfo(const std::string& address, const WorkerFacts& facts);
  void OnLoad(const std::string& address, const WorkerLoad& load, bool serving);
  void OnProbeFailed(const std::string& address, const absl::Status& status);

  // A flow lost this worker. Not ready until the next probe succeeds; ignored
  // if the worker has another epoch by now.
  void ReportFailure(const WorkerId& id, Epoch epoch);

  // This gateway's own requests on a worker; unknown ids are ignored.
  void AddInflight(const WorkerId& id, int delta);

  std::shared_ptr<const ClusterSnapshot> Snapshot() const;
  // True if a ready worker can decode.
  bool CanServe() const;

 private:
  struct Entry {
    WorkerSnapshot view;
    bool registered = false;
    bool is_static = false;
    bool reachable = false;
    bool answered = false;        // a probe, ever
    bool failed = false;          // a probe, ever
    std::optional<bool> serving;  // nullopt: not asked since it was reached
    bool has_info = false;
    uint32_t timeouts = 0;
    absl::Duration last_heartbeat;
    telemetry::Gauge* up = nullptr;  // set with the first info
  };

  // False if every worker has answered or is static.
  bool MakeRoomLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* FindLocked(const std::string& address)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JudgeLocked(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JudgeAllLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefreshIdentityLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock* const clock_;
  telemetry::MetricsRegistry* const metrics_;

  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by address
  std::string own_address_ ABSL_GUARDED_BY(mutex_);
  std::string model_digest_ ABSL_GUARDED_BY(mutex_);
  std::string layout_fingerprint_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ClusterSnapshot> snapshot_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_WORKER_REGISTRY_H_
