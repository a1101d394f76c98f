#include "worker/handoff/handoff_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"

namespace baton::worker {

void EncodeLayout(const kvstore::KvLayout& layout, v1::KvLayout* message) {
  message->set_fingerprint(layout.Fingerprint().Raw());
  message->set_model_digest(layout.model_digest.Raw());
  message->set_architecture(layout.architecture);
  message->set_numerics_mode(layout.numerics_mode);
  message->set_numerics_id(layout.numerics_id);
  message->set_block_tokens(layout.block_tokens);
  message->set_layout_version(kvstore::KvLayout::kVersion);
  message->set_parameters(layout.parameters);
  if (layout.DraftBytes() > 0) {
    message->set_draft_digest(layout.draft_digest.Raw());
  }
  for (const kvstore::KvGroup& group : layout.groups) {
    v1::KvGroup* out = message->add_groups();
    out->set_name(group.name);
    out->set_kind(group.kind);
    out->set_dtype(group.dtype);
    out->set_layers(group.layers);
    out->set_kv_heads(group.kv_heads);
    out->set_head_dim(group.head_dim);
    out->set_block_bytes(group.block_bytes);
  }
}

absl::StatusOr<kvstore::KvLayout> DecodeLayout(const v1::KvLayout& message) {
  if (message.layout_version() != kvstore::KvLayout::kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("cache layout version ", message.layout_version(),
                     "; this worker knows ", kvstore::KvLayout::kVersion));
  }
  kvstore::KvLayout layout;
  BATON_ASSIGN_OR_RETURN(layout.model_digest,
                         kvstore::Digest::FromRaw(message.model_digest()));
  layout.architecture = message.architecture();
  layout.parameters = message.parameters();
  layout.numerics_mode = message.numerics_mode();
  layout.numerics_id = message.numerics_id();
  layout.block_tokens = message.block_tokens();
  for (const v1::KvGroup& group : message.groups()) {
    layout.groups.push_back({group.name(), group.kind(), group.dtype(),
                             group.layers(), group.kv_heads(), group.head_dim(),
                             group.block_bytes()});
  }
  if (!message.draft_digest().empty()) {
    BATON_ASSIGN_OR_RETURN(layout.draft_digest,
                           kvstore::Digest::FromRaw(message.draft_digest()));
  }
  if (layout.Fingerprint().Raw() != message.fingerprint()) {
    return absl::InvalidArgumentError(
        "cache layout: the fingerprint is not that of its fields");
  }
  return layout;
}

void EncodeManifest(const HandoffManifest& manifest,
                    v1::HandoffManifest* message) {
  message->set_handoff_id(manifest.handoff.value());
  message->set_sender_epoch(manifest.sender_epoch.value());
  EncodeLayout(manifest.layout, message->mutable_layout());
  message->set_kvstore_address(manifest.kvstore_address);
  message->set_kvstore_epoch(manifest.lease.epoch.value());
  message->set_lease_id(manifest.lease.id.value());
  v1::PositionContract* position = message->mutable_position();
  position->set_committed_tokens(manifest.position.committed_tokens);
  position->set_kv_tokens(manifest.position.kv_tokens);
  position->set_pending_token_id(manifest.position.pending_token);
  position->set_pending_position(manifest.position.pending_position);
  position->set_random_counter(manifest.position.random_counter);
  for (const HandoffBlock& block : manifest.blocks) {
    v1::HandoffBlock* out = message->add_blocks();
    out->set_key(block.object.key.Raw());
    out->set_tokens(block.tokens);
    out->set_generation(block.object.generation.value());
    out->set_crc32c(block.object.crc32c);
    out->set_payload_bytes(block.object.payload_bytes);
    if (block.draft.has_value()) {
      v1::DraftObject* draft = out->mutable_draft();
      draft->set_generation(block.draft->generation.value());
      draft->set_crc32c(block.draft->crc32c);
      draft->set_payload_bytes(block.draft->payload_bytes);
    }
  }
}

absl::StatusOr<HandoffManifest> DecodeManifest(
    const v1::HandoffManifest& message, size_t max_blocks) {
  if (static_cast<size_t>(message.blocks_size()) > max_blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("manifest: ", message.blocks_size(),
                     " blocks; the context has ", max_blocks));
  }
  HandoffManifest manifest;
  manifest.handoff = HandoffId(message.handoff_id());
  manifest.sender_epoch = Epoch(message.sender_epoch());
  BATON_ASSIGN_OR_RETURN(manifest.layout, DecodeLayout(message.layout()));
  manifest.kvstore_address = message.kvstore_address();
  manifest.lease.epoch = Epoch(message.kvstore_epoch());
  manifest.lease.id = LeaseId(message.lease_id());
  const v1::PositionContract& position = message.position();
  manifest.position = {position.committed_tokens(), position.kv_tokens(),
                       position.pending_token_id(), position.pending_position(),
                       position.random_counter()};
  for (const v1::HandoffBlock& block : message.blocks()) {
    HandoffBlock out;
    BATON_ASSIGN_OR_RETURN(out.object.key,
                           kvstore::BlockKey::FromRaw(block.key()));
    out.object.generation = Generation(block.generation());
    out.object.crc32c = block.crc32c();
    out.object.payload_bytes = block.payload_bytes();
    out.tokens = block.tokens();
    if (block.has_draft()) {
      kvstore::ObjectInfo draft;
      draft.key =
          kvstore::DraftKey(manifest.layout.DraftFingerprint(), out.object.key);
      draft.generation = Generation(block.draft().generation());
      draft.crc32c = block.draft().crc32c();
      draft.payload_bytes = block.draft().payload_bytes();
      out.draft = draft;
    }
    manifest.blocks.push_back(std::move(out));
  }
  return manifest;
}

}  // namespace baton::worker
