// Finds the deepest prefix of a prompt whose KV rows exist already: first in
// the worker's own block pool, then, beyond that, in the store. What the store
// gives is verified before it is indexed or used; a damaged or vanished block
// ends the prefix there and the rest is computed.
#ifndef BATON_WORKER_HANDOFF_PREFIX_RESTORER_H_
#define BATON_WORKER_HANDOFF_PREFIX_RESTORER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "kvstore/block/block_key.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/ids.h"
#include "services/telemetry/metrics.h"
#include "worker/cache/block_pool.h"
#include "worker/handoff/block_fetcher.h"
#include "worker/handoff/block_packing.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/handoff/lease_book.h"

namespace baton::worker {

struct RestoreRequest {
  // The lookup's lease is granted under this id.
  HandoffId handoff;
  std::span<const TokenId> tokens;
  kvstore::BlockKey root;
  // Ask the store for a lease even if the pool holds everything (a publisher
  // needs one).
  bool want_lease = false;
};

struct RestoredPrefix {
  std::vector<BlockRef> blocks;  // full blocks from position 0
  uint32_t tokens = 0;           // local_tokens + store_tokens
  uint32_t local_tokens = 0;
  uint32_t store_tokens = 0;
  uint64_t store_bytes = 0;
  uint32_t corrupt_blocks = 0;  // dropped for a bad CRC
  // Null if the store was not asked or did not answer.
  std::unique_ptr<HeldLease> lease;
  // Leading full blocks of `tokens` that the store has, pinned by the lease.
  std::vector<kvstore::ObjectInfo> present;
};

// Thread-safe.
class PrefixRestorer {
 public:
  // All must outlive this. Without a store (`store` and `leases` null) only
  // the pool is used. `drafts`: empty = there are no draft groups.
  PrefixRestorer(BlockPool* pool, kvstore::KvStoreClient* store,
                 LeaseBook* leases, Executor* fetchers,
                 const HandoffMetrics* metrics, const DraftShape& drafts = {});

  // Blocks for as long as the store takes; never on a device thread or in an
  // RPC callback. At most ReusableTokens of the tokens are restored. There is
  // no error: what cannot be restored is left to be computed.
  RestoredPrefix Restore(const RestoreRequest& request,
                         std::stop_token stop) const;

 private:
  // Fetches blocks [have, wanted) that `present` names and appends them.
  void FetchMissing(const HandoffId& handoff,
                    std::span<const kvstore::BlockKey> keys, size_t wanted,
                    std::stop_token stop, RestoredPrefix* prefix) const;
  // The draft rows of `blocks`, under the handoff's lease; marks those primed
  // that got theirs. Returns their bytes.
  uint64_t FetchDrafts(const HandoffId& handoff, const HeldLease& lease,
                       std::span<const kvstore::BlockKey> keys,
                       std::span<const BlockRef> blocks,
                       std::stop_token stop) const;

  BlockPool* const pool_;
  kvstore::KvStoreClient* const store_;
  LeaseBook* const leases_;
  const BlockFetcher fetcher_;
  const HandoffMetrics* const metrics_;
  const DraftShape drafts_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_PREFIX_RESTORER_H_
