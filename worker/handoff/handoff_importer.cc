#include "worker/handoff/handoff_importer.h"

#include <utility>

#include "absl/status/status.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

std::vector<kvstore::BlockKey> FullBlockKeys(const HandoffManifest& manifest,
                                             uint32_t block_tokens) {
  std::vector<kvstore::BlockKey> keys;
  for (const HandoffBlock& block : manifest.blocks) {
    if (block.tokens == block_tokens) keys.push_back(block.object.key);
  }
  return keys;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HandoffImporter>> HandoffImporter::Create(
    BlockPool* pool, kvstore::KvStoreClient* store, LeaseBook* leases,
    Executor* fetchers, const kvstore::KvLayout* layout,
    const HandoffMetrics* metrics) {
  BATON_ASSIGN_OR_RETURN(
      const BlockShape shape,
      BlockShape::Of(layout->groups[0], layout->block_tokens));
  BATON_ASSIGN_OR_RETURN(const DraftShape drafts, DraftShape::Of(*layout));
  return std::unique_ptr<HandoffImporter>(new HandoffImporter(
      pool, store, leases, fetchers, layout, metrics, shape, drafts));
}

HandoffImporter::HandoffImporter(BlockPool* pool, kvstore::KvStoreClient* store,
                                 LeaseBook* leases, Executor* fetchers,
                                 const kvstore::KvLayout* layout,
                                 const HandoffMetrics* metrics,
                                 const BlockShape& shape,
                                 const DraftShape& drafts)
    : pool_(pool),
      store_(store),
      leases_(leases),
      fetcher_(store, fetchers),
      layout_(layout),
      metrics_(metrics),
      shape_(shape),
      drafts_(drafts) {}

void HandoffImporter::Discard(const HandoffManifest& manifest) const {
  if (store_ == nullptr || !manifest.lease.id) return;
  leases_->Hold(manifest.lease)->Release();
}

absl::StatusOr<ImportedPrefix> HandoffImporter::Import(
    const HandoffManifest& manifest, std::span<const TokenId> tokens,
    const kvstore::BlockKey& root, std::stop_token stop) const {
  // Held first and released on every way out.
  std::unique_ptr<HeldLease> lease;
  if (store_ != nullptr && manifest.lease.id) {
    lease = leases_->Hold(manifest.lease);
  }
  BATON_RETURN_IF_ERROR(kvstore::CheckCompatible(*layout_, manifest.layout));
  BATON_RETURN_IF_ERROR(CheckPositionContract(
      manifest, tokens, root, layout_->groups[0], layout_->block_tokens));
  ImportedPrefix prefix;
  prefix.blocks = pool_->Match(FullBlockKeys(manifest, layout_->block_tokens));
  prefix.local_tokens =
      static_cast<uint32_t>(prefix.blocks.size()) * layout_->block_tokens;
  prefix.tokens = prefix.local_tokens;
  absl::string_view cause;
  if (prefix.blocks.size() < manifest.blocks.size()) {
    const absl::Status status =
        lease == nullptr ? absl::UnavailableError("no KV store")
                         : FetchMissing(manifest, *lease, stop, &prefix);
    if (absl::IsDataLoss(status)) ++prefix.corrupt_blocks;
    if (!status.ok()) cause = CauseOf(status);
  }
  if (cause.empty() && prefix.tokens + 1 < tokens.size()) {
    cause = "not_published";
  }
  if (!cause.empty()) metrics_->Fallback(cause)->Increment();
  return prefix;
}

absl::Status HandoffImporter::FetchMissing(const HandoffManifest& manifest,
                                           const HeldLease& lease,
                                           std::stop_token stop,
                                           ImportedPrefix* prefix) const {
  const size_t have = prefix->blocks.size();
  const size_t count = manifest.blocks.size() - have;
  BATON_ASSIGN_OR_RETURN(std::vector<BlockRef> room,
                         pool_->TryAllocate(static_cast<uint32_t>(count)));
  std::vector<FetchItem> items;
  // A partial block is packed and is unpacked only after it was verified.
  std::vector<std::byte> packed;
  for (size_t i = 0; i < count; ++i) {
    const HandoffBlock& block = manifest.blocks[have + i];
    std::span<std::byte> destination = room[i].bytes();
    if (block.tokens < shape_.block_tokens) {
      packed.resize(block.object.payload_bytes);
      destination = packed;
    }
    items.push_back({block.object, destination});
  }
  const FetchOutcome outcome = fetcher_.Fetch(lease.lease(), items, stop);
  // Before anybody can find the blocks.
  FetchDrafts(manifest, have, lease, stop, std::span(room).first(outcome.good),
              prefix);
  for (size_t i = 0; i < outcome.good; ++i) {
    const HandoffBlock& block = manifest.blocks[have + i];
    if (block.tokens < shape_.block_tokens) {
      BATON_RETURN_IF_ERROR(
          UnpackRows(shape_, packed, block.tokens, room[i].bytes()));
    } else {
      pool_->Index(block.object.key, room[i]);
    }
    prefix->blocks.push_back(std::move(room[i]));
    prefix->tokens += block.tokens;
    prefix->store_tokens += block.tokens;
    prefix->store_bytes += block.object.payload_bytes;
  }
  return outcome.status;
}

void HandoffImporter::FetchDrafts(const HandoffManifest& manifest, size_t have,
                                  const HeldLease& lease, std::stop_token stop,
                                  std::span<const BlockRef> room,
                                  ImportedPrefix* prefix) const {
  if (drafts_.empty() || room.empty()) return;
  if (manifest.layout.DraftFingerprint() != drafts_.fingerprint) {
    metrics_->DraftLoss("other_head")->Increment();
    return;
  }
  std::vector<FetchItem> items;
  std::vector<std::byte> packed;  // of the partial block, as above
  absl::string_view cause;
  for (size_t i = 0; i < room.size() && cause.empty(); ++i) {
    const HandoffBlock& block = manifest.blocks[have + i];
    if (!block.draft.has_value() ||
        block.draft->payload_bytes != drafts_.PayloadBytes(block.tokens)) {
      cause = "not_published";
      break;
    }
    std::span<std::byte> destination = room[i].draft_bytes();
    if (block.tokens < shape_.block_tokens) {
      packed.resize(block.draft->payload_bytes);
      destination = packed;
    }
    items.push_back({*block.draft, destination});
  }
  const FetchOutcome outcome = fetcher_.Fetch(lease.lease(), items, stop);
  for (size_t i = 0; i < outcome.good; ++i) {
    const HandoffBlock& block = manifest.blocks[have + i];
    if (block.tokens < shape_.block_tokens &&
        !UnpackDraft(drafts_, packed, block.tokens, room[i].draft_bytes())
             .ok()) {
      break;
    }
    room[i].MarkPrimed();
    prefix->store_bytes += block.draft->payload_bytes;
  }
  if (!outcome.status.ok()) cause = CauseOf(outcome.status);
  if (!cause.empty()) metrics_->DraftLoss(cause)->Increment();
}

}  // namespace baton::worker
