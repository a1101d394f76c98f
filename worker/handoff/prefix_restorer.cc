#include "worker/handoff/prefix_restorer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace baton::worker {

PrefixRestorer::PrefixRestorer(BlockPool* pool, kvstore::KvStoreClient* store,
                               LeaseBook* leases, Executor* fetchers,
                               const HandoffMetrics* metrics,
                               const DraftShape& drafts)
    : pool_(pool),
      store_(store),
      leases_(leases),
      fetcher_(store, fetchers),
      metrics_(metrics),
      drafts_(drafts) {}

RestoredPrefix PrefixRestorer::Restore(const RestoreRequest& request,
                                       std::stop_token stop) const {
  const uint32_t block_tokens = pool_->block_tokens();
  const std::vector<kvstore::BlockKey> keys =
      kvstore::BlockKeys(request.root, request.tokens, block_tokens);
  const size_t wanted =
      kvstore::ReusableTokens(static_cast<uint32_t>(request.tokens.size()),
                              block_tokens) /
      block_tokens;
  RestoredPrefix prefix;
  prefix.blocks = pool_->Match(std::span(keys).first(wanted));
  prefix.local_tokens =
      static_cast<uint32_t>(prefix.blocks.size()) * block_tokens;
  prefix.tokens = prefix.local_tokens;
  if (store_ == nullptr || stop.stop_requested() ||
      (prefix.blocks.size() == wanted && !request.want_lease)) {
    return prefix;
  }
  auto lookup = store_->Lookup(request.handoff, keys, leases_->ttl());
  if (!lookup.ok()) {
    metrics_->Restore(lookup.status())->Increment();
    return prefix;
  }
  prefix.lease = leases_->Hold(lookup->lease);
  for (size_t i = 0; i < lookup->hits.size() && i < keys.size(); ++i) {
    const kvstore::ObjectInfo& hit = lookup->hits[i];
    if (hit.key != keys[i] || hit.payload_bytes != pool_->block_bytes()) break;
    prefix.present.push_back(hit);
  }
  FetchMissing(request.handoff, keys, wanted, stop, &prefix);
  return prefix;
}

void PrefixRestorer::FetchMissing(const HandoffId& handoff,
                                  std::span<const kvstore::BlockKey> keys,
                                  size_t wanted, std::stop_token stop,
                                  RestoredPrefix* prefix) const {
  const size_t have = prefix->blocks.size();
  const size_t end = std::min(wanted, prefix->present.size());
  if (have >= end) return;
  auto room = pool_->TryAllocate(static_cast<uint32_t>(end - have));
  if (!room.ok()) {
    metrics_->Restore(room.status())->Increment();
    return;
  }
  std::vector<FetchItem> items;
  for (size_t i = have; i < end; ++i) {
    items.push_back({prefix->present[i], (*room)[i - have].bytes()});
  }
  const FetchOutcome outcome =
      fetcher_.Fetch(prefix->lease->lease(), items, stop);
  // Before anybody can find the blocks.
  const uint64_t draft_bytes =
      FetchDrafts(handoff, *prefix->lease, keys.subspan(have, outcome.good),
                  std::span(*room).first(outcome.good), stop);
  for (size_t i = 0; i < outcome.good; ++i) {
    pool_->Index(keys[have + i], (*room)[i]);
    prefix->blocks.push_back(std::move((*room)[i]));
  }
  const auto good = static_cast<uint32_t>(outcome.good);
  prefix->store_tokens = good * pool_->block_tokens();
  prefix->store_bytes = good * pool_->block_bytes() + draft_bytes;
  prefix->tokens += prefix->store_tokens;
  if (outcome.status.ok()) return;
  if (absl::IsDataLoss(outcome.status)) ++prefix->corrupt_blocks;
  metrics_->Restore(outcome.status)->Increment();
  // The block at fault is gone from the store, or cannot be trusted: it will
  // be computed and published again.
  prefix->present.resize(have + outcome.good);
}

uint64_t PrefixRestorer::FetchDrafts(const HandoffId& handoff,
                                     const HeldLease& lease,
                                     std::span<const kvstore::BlockKey> keys,
                                     std::span<const BlockRef> blocks,
                                     std::stop_token stop) const {
  if (drafts_.empty() || blocks.empty()) return 0;
  std::vector<kvstore::BlockKey> draft_keys;
  for (const kvstore::BlockKey& key : keys) {
    draft_keys.push_back(kvstore::DraftKey(drafts_.fingerprint, key));
  }
  auto lookup = store_->Lookup(handoff, draft_keys, leases_->ttl());
  if (!lookup.ok()) {
    metrics_->DraftLoss(CauseOf(lookup.status()))->Increment();
    return 0;
  }
  // One handoff has one lease, which now pins these too; if it has expired,
  // this is another.
  std::unique_ptr<HeldLease> other;
  if (lookup->lease.id != lease.lease().id) {
    other = leases_->Hold(lookup->lease);
  }
  std::vector<FetchItem> items;
  for (size_t i = 0; i < lookup->hits.size() && i < blocks.size(); ++i) {
    const kvstore::ObjectInfo& hit = lookup->hits[i];
    if (hit.key != draft_keys[i] || hit.payload_bytes != pool_->draft_bytes()) {
      break;
    }
    items.push_back({hit, blocks[i].draft_bytes()});
  }
  const FetchOutcome outcome = fetcher_.Fetch(lookup->lease, items, stop);
  for (size_t i = 0; i < outcome.good; ++i) blocks[i].MarkPrimed();
  if (!outcome.status.ok()) {
    metrics_->DraftLoss(CauseOf(outcome.status))->Increment();
  } else if (outcome.good < blocks.size()) {
    metrics_->DraftLoss("missing")->Increment();
  }
  return outcome.good * pool_->draft_bytes();
}

}  // namespace baton::worker
