#include "kvstore/index/lease_table.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "services/base/random.h"

namespace baton::kvstore {

LeaseEntry* LeaseTable::Grant(const HandoffId& handoff,
                              absl::Duration deadline) {
  if (LeaseEntry* known = FindByHandoff(handoff)) {
    known->deadline = std::max(known->deadline, deadline);
    return known;
  }
  auto entry = std::make_unique<LeaseEntry>();
  // Random, so that a lease cannot be used by who was not given it.
  do {
    entry->id = LeaseId(RandomIdentity());
  } while (leases_.contains(entry->id));
  entry->sequence = ++granted_;
  entry->handoff = handoff;
  entry->deadline = deadline;
  LeaseEntry* const lease = entry.get();
  by_handoff_[handoff] = lease->id;
  leases_[lease->id] = std::move(entry);
  return lease;
}

LeaseEntry* LeaseTable::FindByHandoff(const HandoffId& handoff) {
  auto it = by_handoff_.find(handoff);
  return it == by_handoff_.end() ? nullptr : Find(it->second);
}

LeaseEntry* LeaseTable::Find(LeaseId id) {
  auto it = leases_.find(id);
  return it == leases_.end() ? nullptr : it->second.get();
}

LeaseEntry* LeaseTable::FindLive(LeaseId id, absl::Duration now) {
  LeaseEntry* const lease = Find(id);
  return lease != nullptr && now < lease->deadline ? lease : nullptr;
}

std::unique_ptr<LeaseEntry> LeaseTable::Remove(LeaseId id) {
  auto it = leases_.find(id);
  if (it == leases_.end()) return nullptr;
  std::unique_ptr<LeaseEntry> lease = std::move(it->second);
  leases_.erase(it);
  by_handoff_.erase(lease->handoff);
  return lease;
}

std::vector<LeaseId> LeaseTable::Expired(absl::Duration now) const {
  std::vector<const LeaseEntry*> found;
  for (const auto& [id, lease] : leases_) {
    if (now >= lease->deadline) found.push_back(lease.get());
  }
  std::sort(found.begin(), found.end(),
            [](const LeaseEntry* a, const LeaseEntry* b) {
              return std::tie(a->deadline, a->sequence) <
                     std::tie(b->deadline, b->sequence);
            });
  std::vector<LeaseId> ids;
  ids.reserve(found.size());
  for (const LeaseEntry* lease : found) ids.push_back(lease->id);
  return ids;
}

}  // namespace baton::kvstore
