#include "worker/handoff/handoff_manifest.h"

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

absl::Status Disagree(absl::string_view what, uint64_t here, uint64_t there) {
  return absl::FailedPreconditionError(absl::StrCat("position contract: ", what,
                                                    " is ", here, " here, ",
                                                    there, " in the manifest"));
}

absl::Status CheckPositions(const PositionContract& position,
                            std::span<const TokenId> tokens) {
  const uint64_t committed = tokens.size();
  if (position.committed_tokens != committed) {
    return Disagree("committed tokens", committed, position.committed_tokens);
  }
  if (position.pending_position != committed - 1) {
    return Disagree("pending position", committed - 1,
                    position.pending_position);
  }
  if (position.pending_token != tokens.back()) {
    return absl::FailedPreconditionError(
        "position contract: the pending token differs");
  }
  if (position.random_counter != committed) {
    return Disagree("random counter", committed, position.random_counter);
  }
  if (position.kv_tokens >= committed) {
    return Disagree("upper bound of rows", committed - 1, position.kv_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPositionContract(const HandoffManifest& manifest,
                                   std::span<const TokenId> tokens,
                                   const kvstore::BlockKey& root,
                                   const kvstore::KvGroup& group,
                                   uint32_t block_tokens) {
  if (tokens.empty()) {
    return absl::FailedPreconditionError("position contract: no tokens");
  }
  BATON_RETURN_IF_ERROR(CheckPositions(manifest.position, tokens));
  uint64_t covered = 0;
  kvstore::BlockKey parent = root;
  for (size_t i = 0; i < manifest.blocks.size(); ++i) {
    const HandoffBlock& block = manifest.blocks[i];
    const bool last = i + 1 == manifest.blocks.size();
    if (block.tokens == 0 || block.tokens > block_tokens ||
        (!last && block.tokens != block_tokens)) {
      return Disagree(absl::StrCat("length of block ", i), block_tokens,
                      block.tokens);
    }
    if (covered + block.tokens >= tokens.size()) {
      return Disagree("upper bound of rows", tokens.size() - 1,
                      covered + block.tokens);
    }
    const uint64_t bytes =
        kvstore::KvLayout::PayloadBytes(group, block_tokens, block.tokens);
    if (block.object.payload_bytes != bytes) {
      return Disagree(absl::StrCat("size of block ", i), bytes,
                      block.object.payload_bytes);
    }
    parent = kvstore::NextKey(parent, tokens.subspan(covered, block.tokens));
    if (block.object.key != parent) {
      return absl::FailedPreconditionError(
          absl::StrCat("position contract: block ", i, " holds other tokens"));
    }
    covered += block.tokens;
  }
  if (covered != manifest.position.kv_tokens) {
    return Disagree("rows in blocks", covered, manifest.position.kv_tokens);
  }
  return absl::OkStatus();
}

}  // namespace baton::worker
