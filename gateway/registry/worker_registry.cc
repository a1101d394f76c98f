#include "gateway/registry/worker_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gateway/registry/worker_address.h"
#include "services/base/error_details.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

constexpr char kConnecting[] = "connecting";
constexpr char kUnreachable[] = "unreachable";

const char* PhaseName(WorkerRole role) {
  switch (role) {
    case WorkerRole::kPrefill:
      return "prefill";
    case WorkerRole::kDecode:
      return "decode";
    case WorkerRole::kAny:
      return "any";
  }
  return "any";
}

}  // namespace

WorkerRegistry::WorkerRegistry(const Options& options, const Clock* clock,
                               telemetry::MetricsRegistry* metrics)
    : options_(options),
      clock_(clock),
      metrics_(metrics),
      snapshot_(std::make_shared<ClusterSnapshot>()) {}

void WorkerRegistry::AddStatic(const std::string& address) {
  MutexLock lock(&mutex_);
  Entry& entry = entries_[address];
  entry.is_static = true;
  if (entry.view.id.empty()) {
    entry.view.id = WorkerId(address);
    entry.view.address = address;
    entry.view.state = kConnecting;
  }
  PublishLocked();
}

void WorkerRegistry::SetOwnAddress(const std::string& address) {
  MutexLock lock(&mutex_);
  own_address_ = address;
}

absl::Status WorkerRegistry::Register(const WorkerId& id,
                                      const std::string& address, Epoch epoch) {
  BATON_RETURN_IF_ERROR(CheckWorkerId(id.value()));
  BATON_RETURN_IF_ERROR(CheckWorkerAddress(address));
  MutexLock lock(&mutex_);
  if (IsOwnAddress(address, own_address_)) {
    return WithField(
        WithReason(absl::InvalidArgumentError(
                       "address is this gateway's own, not a worker's"),
                   "invalid_value"),
        "address");
  }
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.view.id != id || it->first == address) continue;
    // A static worker that has not registered is called by its address.
    const bool unnamed = it->second.is_static && it->first == id.value();
    if (it->second.reachable || unnamed) {
      return WithField(
          WithReason(absl::InvalidArgumentError(absl::StrCat(
                         "worker_id ", id.value(), " belongs to the ",
                         unnamed ? "" : "live ", "worker at ", it->first)),
                     "invalid_value"),
          "worker_id");
    }
    // It came back at another address; an id stands for one worker.
    if (it->second.is_static) {
      it->second.view.id = WorkerId(it->first);
    } else {
      entries_.erase(it);
    }
    break;
  }
  if (entries_.count(address) == 0 && entries_.size() >= options_.max_workers &&
      !MakeRoomLocked()) {
    return absl::ResourceExhaustedError("too many workers");
  }
  Entry& entry = entries_[address];
  if (!entry.registered) {
    Log(LogLevel::kInfo, "worker registered",
        {{"worker", id.value()}, {"address", address}});
  }
  entry.registered = true;
  entry.last_heartbeat = clock_->Monotonic();
  entry.view.id = id;
  entry.view.address = address;
  if (entry.view.state.empty()) entry.view.state = kConnecting;
  if (entry.view.epoch && entry.view.epoch != epoch) entry.has_info = false;
  JudgeLocked(&entry);
  PublishLocked();
  return absl::OkStatus();
}

bool WorkerRegistry::MakeRoomLocked() {
  auto victim = entries_.end();
  const auto rank = [](const Entry& entry) {
    return std::make_pair(!entry.failed, entry.last_heartbeat);
  };
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.answered || it->second.is_static) continue;
    if (victim == entries_.end() || rank(it->second) < rank(victim->second)) {
      victim = it;
    }
  }
  if (victim == entries_.end()) return false;
  Log(LogLevel::kInfo,
      "worker forgotten: it never answered, and the table is full",
      {{"worker", victim->second.view.id.value()}});
  entries_.erase(victim);
  return true;
}

std::vector<std::string> WorkerRegistry::Addresses() {
  MutexLock lock(&mutex_);
  const absl::Duration now = clock_->Monotonic();
  std::vector<std::string> addresses;
  bool changed = false;
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    const bool expired = entry.registered &&
                         now - entry.last_heartbeat > options_.heartbeat_expiry;
    if (expired && !entry.is_static && !entry.reachable) {
      Log(LogLevel::kWarning, "worker forgotten: no heartbeat",
          {{"worker", entry.view.id.value()}});
      if (entry.up != nullptr) entry.up->Set(0);
      it = entries_.erase(it);
      changed = true;
      continue;
    }
    addresses.push_back(it->first);
    ++it;
  }
  if (changed) PublishLocked();
  return addresses;
}

bool WorkerRegistry::NeedsInfo(const std::string& address) const {
  MutexLock lock(&mutex_);
  auto it = entries_.find(address);
  return it != entries_.end() && !it->second.has_info;
}

bool WorkerRegistry::BelongsToCluster(const std::string& address) const {
  MutexLock lock(&mutex_);
  auto it = entries_.find(address);
  return it != entries_.end() && it->second.has_info &&
         it->second.view.model_digest == model_digest_ &&
         it->second.view.layout_fingerprint == layout_fingerprint_;
}

WorkerRegistry::Entry* WorkerRegistry::FindLocked(const std::string& address) {
  auto it = entries_.find(address);
  return it == entries_.end() ? nullptr : &it->second;
}

void WorkerRegistry::OnInfo(const std::string& address,
                            const WorkerFacts& facts) {
  MutexLock lock(&mutex_);
  Entry* entry = FindLocked(address);
  if (entry == nullptr) return;
  if (entry->view.epoch && entry->view.epoch != facts.epoch) {
    Log(LogLevel::kInfo, "worker restarted",
        {{"worker", entry->view.id.value()}, {"epoch", facts.epoch.value()}});
  }
  // A worker that still loads answers without an identity: ask again.
  entry->has_info =
      !facts.model_digest.empty() && !facts.layout_fingerprint.empty();
  entry->reachable = true;
  entry->answered = true;
  entry->timeouts = 0;
  entry->view.role = facts.role;
  entry->view.epoch = facts.epoch;
  entry->view.model_digest = facts.model_digest;
  entry->view.layout_fingerprint = facts.layout_fingerprint;
  entry->view.numerics_id = facts.numerics_id;
  entry->view.max_sequences = facts.max_sequences;
  entry->view.kv_blocks_total = facts.kv_blocks_total;
  if (entry->up == nullptr) {
    entry->up = metrics_->GetGauge(
        "baton_worker_up", "Whether the gateway can send work to the worker",
        {{"worker", entry->view.id.value()}, {"phase", PhaseName(facts.role)}});
  }
  RefreshIdentityLocked();
  PublishLocked();
}

void WorkerRegistry::OnLoad(const std::string& address, const WorkerLoad& load,
                            bool serving) {
  MutexLock lock(&mutex_);
  Entry* entry = FindLocked(address);
  if (entry == nullptr) return;
  entry->reachable = true;
  entry->answered = true;
  entry->timeouts = 0;
  entry->serving = serving;
  entry->view.running = load.running;
  entry->view.waiting = load.waiting;
  entry->view.kv_blocks_used = load.kv_blocks_used;
  if (load.kv_blocks_total > 0) {
    entry->view.kv_blocks_total = load.kv_blocks_total;
  }
  JudgeLocked(entry);
  PublishLocked();
}

void WorkerRegistry::OnProbeFailed(const std::string& address,
                                   const absl::Status& status) {
  MutexLock lock(&mutex_);
  Entry* entry = FindLocked(address);
  if (entry == nullptr) return;
  entry->failed = true;
  if (absl::IsDeadlineExceeded(status) &&
      ++entry->timeouts < options_.timeouts_until_unreachable) {
    return;
  }
  entry->reachable = false;
  entry->serving.reset();
  entry->has_info = false;
  JudgeLocked(entry);
  PublishLocked();
}

void WorkerRegistry::ReportFailure(const WorkerId& id, Epoch epoch) {
  MutexLock lock(&mutex_);
  for (auto& [address, entry] : entries_) {
    if (entry.view.id != id || entry.view.epoch != epoch) continue;
    entry.reachable = false;
    entry.serving.reset();
    entry.has_info = false;
    JudgeLocked(&entry);
    PublishLocked();
    return;
  }
}

void WorkerRegistry::AddInflight(const WorkerId& id, int delta) {
  MutexLock lock(&mutex_);
  for (auto& [address, entry] : entries_) {
    if (entry.view.id != id) continue;
    const int64_t next = int64_t{entry.view.inflight} + delta;
    entry.view.inflight = static_cast<uint32_t>(std::max<int64_t>(0, next));
    PublishLocked();
    return;
  }
}

std::shared_ptr<const ClusterSnapshot> WorkerRegistry::Snapshot() const {
  MutexLock lock(&mutex_);
  return snapshot_;
}

bool WorkerRegistry::CanServe() const {
  const auto snapshot = Snapshot();
  return std::any_of(snapshot->workers.begin(), snapshot->workers.end(),
                     [](const WorkerSnapshot& worker) {
                       return worker.ready &&
                              worker.role != WorkerRole::kPrefill;
                     });
}

// The identity stays while any reachable worker has it.
void WorkerRegistry::RefreshIdentityLocked() {
  const Entry* first = nullptr;
  bool held = false;
  for (const auto& [address, entry] : entries_) {
    if (!entry.reachable || !entry.has_info) continue;
    if (first == nullptr) first = &entry;
    held = held || (entry.view.model_digest == model_digest_ &&
                    entry.view.layout_fingerprint == layout_fingerprint_);
  }
  if (first != nullptr && (model_digest_.empty() || !held)) {
    model_digest_ = first->view.model_digest;
    layout_fingerprint_ = first->view.layout_fingerprint;
    Log(LogLevel::kInfo, "cluster model set",
        {{"worker", first->view.id.value()},
         {"model_digest", absl::BytesToHexString(model_digest_)}});
  }
  JudgeAllLocked();
}

void WorkerRegistry::JudgeAllLocked() {
  for (auto& [address, entry] : entries_) JudgeLocked(&entry);
}

void WorkerRegistry::JudgeLocked(Entry* entry) {
  WorkerSnapshot& view = entry->view;
  std::string state = "ready";
  if (!entry->reachable) {
    state = view.epoch ? kUnreachable : kConnecting;
  } else if (!entry->has_info) {
    state = "loading";
  } else if (!entry->serving.has_value()) {
    state = kConnecting;
  } else if (view.model_digest != model_digest_) {
    state = "model differs";
  } else if (view.layout_fingerprint != layout_fingerprint_) {
    state = "layout differs";
  } else if (!*entry->serving) {
    state = "not serving";
  }
  const bool ready = state == "ready";
  if (state != view.state) {
    Log(ready ? LogLevel::kInfo : LogLevel::kWarning, "worker state",
        {{"worker", view.id.value()}, {"from", view.state}, {"to", state}});
  }
  view.ready = ready;
  view.state = std::move(state);
  if (entry->up != nullptr) entry->up->Set(ready ? 1 : 0);
}

void WorkerRegistry::PublishLocked() {
  auto next = std::make_shared<ClusterSnapshot>();
  next->version = snapshot_->version + 1;
  next->workers.reserve(entries_.size());
  for (const auto& [address, entry] : entries_) {
    next->workers.push_back(entry.view);
  }
  std::sort(next->workers.begin(), next->workers.end(),
            [](const WorkerSnapshot& a, const WorkerSnapshot& b) {
              return a.id < b.id;
            });
  snapshot_ = std::move(next);
}

}  // namespace baton::gateway
