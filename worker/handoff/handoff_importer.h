// Takes over a sequence from a prefill worker: checks that both sides mean the
// same thing, then brings the rows that the manifest names into this worker's
// pool. A block that cannot be had ends the imported prefix before it; the
// rest is computed here, and counted by cause.
#ifndef BATON_WORKER_HANDOFF_HANDOFF_IMPORTER_H_
#define BATON_WORKER_HANDOFF_HANDOFF_IMPORTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/block/kv_layout.h"
#include "services/base/ids.h"
#include "worker/cache/block_pool.h"
#include "worker/handoff/block_fetcher.h"
#include "worker/handoff/block_packing.h"
#include "worker/handoff/handoff_manifest.h"
#include "worker/handoff/handoff_metrics.h"
#include "worker/handoff/lease_book.h"

namespace baton::worker {

struct ImportedPrefix {
  // From position 0; the last may be partial, then nobody else has it.
  std::vector<BlockRef> blocks;
  uint32_t tokens = 0;  // local_tokens + store_tokens
  uint32_t local_tokens = 0;
  uint32_t store_tokens = 0;
  uint64_t store_bytes = 0;
  uint32_t corrupt_blocks = 0;
};

// Thread-safe.
class HandoffImporter {
 public:
  // All must outlive this; `store` and `leases` may be null (no store), then
  // only blocks of the own pool are imported. `layout` has one target group,
  // the first. Draft rows that cannot be had are counted, no more.
  static absl::StatusOr<std::unique_ptr<HandoffImporter>> Create(
      BlockPool* pool, kvstore::KvStoreClient* store, LeaseBook* leases,
      Executor* fetchers, const kvstore::KvLayout* layout,
      const HandoffMetrics* metrics);

  // `tokens`: prompt, then committed tokens; the last one is pending. Blocks
  // for as long as the store takes. The manifest's lease is renewed meanwhile
  // and released at the end in every case, so a manifest is imported once.
  // Errors: kFailedPrecondition (layout, or "position contract: …").
  absl::StatusOr<ImportedPrefix> Import(const HandoffManifest& manifest,
                                        std::span<const TokenId> tokens,
                                        const kvstore::BlockKey& root,
                                        std::stop_token stop) const;

  // Gives the manifest's lease back without importing.
  void Discard(const HandoffManifest& manifest) const;

 private:
  HandoffImporter(BlockPool* pool, kvstore::KvStoreClient* store,
                  LeaseBook* leases, Executor* fetchers,
                  const kvstore::KvLayout* layout,
                  const HandoffMetrics* metrics, const BlockShape& shape,
                  const DraftShape& drafts);

  absl::Status FetchMissing(const HandoffManifest& manifest,
                            const HeldLease& lease, std::stop_token stop,
                            ImportedPrefix* prefix) const;
  // Brings the draft rows of blocks [have, have + room.size()) and marks those
  // primed that got theirs.
  void FetchDrafts(const HandoffManifest& manifest, size_t have,
                   const HeldLease& lease, std::stop_token stop,
                   std::span<const BlockRef> room,
                   ImportedPrefix* prefix) const;

  BlockPool* const pool_;
  kvstore::KvStoreClient* const store_;
  LeaseBook* const leases_;
  const BlockFetcher fetcher_;
  const kvstore::KvLayout* const layout_;
  const HandoffMetrics* const metrics_;
  const BlockShape shape_;
  const DraftShape drafts_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_HANDOFF_IMPORTER_H_
