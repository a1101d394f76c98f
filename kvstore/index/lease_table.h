// Who may read what, until when. A lease belongs to a handoff; both of its
// workers share it.
#ifndef BATON_KVSTORE_INDEX_LEASE_TABLE_H_
#define BATON_KVSTORE_INDEX_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "kvstore/block/block_key.h"
#include "services/base/ids.h"

namespace baton::kvstore {

using WriteId = NumberId<struct WriteIdTag>;

struct LeaseEntry {
  struct Pin {
    BlockKey key;
    Generation generation;
  };

  LeaseId id;
  HandoffId handoff;
  uint64_t sequence = 0;    // of its grant; later leases have higher ones
  absl::Duration deadline;  // by Clock::Monotonic
  // In the order in which they were pinned. An object that was deleted under
  // the lease leaves its pin behind, which then matches no generation.
  std::vector<Pin> pins;
  absl::flat_hash_map<BlockKey, size_t> pin_positions;  // newest pin by key
  absl::flat_hash_set<WriteId> writes;                  // pending ones
};

// A lease is live while now < deadline; after that it still pins its objects
// until it is removed, but allows nothing. Thread-compatible.
class LeaseTable {
 public:
  // The handoff's live lease, extended to at least `deadline`, or a new one.
  // The handoff's lease must not be an expired one: remove that first.
  LeaseEntry* Grant(const HandoffId& handoff, absl::Duration deadline);
  // Null if there is none. Pointers hold until the lease is removed.
  LeaseEntry* FindByHandoff(const HandoffId& handoff);
  LeaseEntry* Find(LeaseId id);
  LeaseEntry* FindLive(LeaseId id, absl::Duration now);
  // Null if there is none.
  std::unique_ptr<LeaseEntry> Remove(LeaseId id);
  // Ascending by deadline, then by grant.
  std::vector<LeaseId> Expired(absl::Duration now) const;
  size_t size() const { return leases_.size(); }

 private:
  absl::flat_hash_map<LeaseId, std::unique_ptr<LeaseEntry>> leases_;
  absl::flat_hash_map<HandoffId, LeaseId> by_handoff_;
  uint64_t granted_ = 0;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_INDEX_LEASE_TABLE_H_
