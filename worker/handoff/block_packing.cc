#include "worker/handoff/block_packing.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

absl::Status CheckSizes(const BlockShape& shape, uint64_t block_bytes,
                        uint32_t tokens) {
  if (block_bytes != shape.PayloadBytes(shape.block_tokens)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a block has ", shape.PayloadBytes(shape.block_tokens),
                     " bytes, not ", block_bytes));
  }
  if (tokens == 0 || tokens > shape.block_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokens, " rows do not fit a block of ", shape.block_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BlockShape> BlockShape::Of(const kvstore::KvGroup& group,
                                          uint32_t block_tokens) {
  BlockShape shape;
  shape.strips = uint64_t{group.layers} * 2 * group.kv_heads;
  shape.block_tokens = block_tokens;
  const uint64_t rows = shape.strips * block_tokens;
  if (rows == 0 || group.block_bytes == 0 || group.block_bytes % rows != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", group.name, ": ", group.block_bytes,
                     " bytes do not divide into ", rows, " rows"));
  }
  shape.row_bytes = group.block_bytes / rows;
  return shape;
}

absl::StatusOr<std::vector<std::byte>> PackRows(
    const BlockShape& shape, std::span<const std::byte> block,
    uint32_t tokens) {
  BATON_RETURN_IF_ERROR(CheckSizes(shape, block.size(), tokens));
  std::vector<std::byte> payload(shape.PayloadBytes(tokens));
  const uint64_t strip_bytes = shape.row_bytes * shape.block_tokens;
  const uint64_t packed_bytes = shape.row_bytes * tokens;
  for (uint64_t strip = 0; strip < shape.strips; ++strip) {
    std::memcpy(payload.data() + strip * packed_bytes,
                block.data() + strip * strip_bytes, packed_bytes);
  }
  return payload;
}

absl::Status UnpackRows(const BlockShape& shape,
                        std::span<const std::byte> payload, uint32_t tokens,
                        std::span<std::byte> block) {
  BATON_RETURN_IF_ERROR(CheckSizes(shape, block.size(), tokens));
  if (payload.size() != shape.PayloadBytes(tokens)) {
    return absl::InvalidArgumentError(
        absl::StrCat(tokens, " rows have ", shape.PayloadBytes(tokens),
                     " bytes, not ", payload.size()));
  }
  const uint64_t strip_bytes = shape.row_bytes * shape.block_tokens;
  const uint64_t packed_bytes = shape.row_bytes * tokens;
  for (uint64_t strip = 0; strip < shape.strips; ++strip) {
    std::memcpy(block.data() + strip * strip_bytes,
                payload.data() + strip * packed_bytes, packed_bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<DraftShape> DraftShape::Of(const kvstore::KvLayout& layout) {
  DraftShape shape;
  for (const kvstore::KvGroup& group : layout.groups) {
    if (group.name == "mtp") {
      BATON_ASSIGN_OR_RETURN(shape.rows,
                             BlockShape::Of(group, layout.block_tokens));
    } else if (group.name == "tail") {
      shape.tail_bytes = group.block_bytes;
    }
  }
  if (shape.PayloadBytes(layout.block_tokens) != layout.DraftBytes()) {
    return absl::InvalidArgumentError("the draft groups are not mtp and tail");
  }
  shape.fingerprint = layout.DraftFingerprint();
  return shape;
}

absl::StatusOr<std::vector<std::byte>> PackDraft(
    const DraftShape& shape, std::span<const std::byte> block,
    uint32_t tokens) {
  if (block.size() != shape.PayloadBytes(shape.rows.block_tokens)) {
    return absl::InvalidArgumentError("draft rows of another size");
  }
  BATON_ASSIGN_OR_RETURN(
      std::vector<std::byte> payload,
      PackRows(shape.rows, block.first(block.size() - shape.tail_bytes),
               tokens));
  const auto tail = block.last(shape.tail_bytes);
  payload.insert(payload.end(), tail.begin(), tail.end());
  return payload;
}

absl::Status UnpackDraft(const DraftShape& shape,
                         std::span<const std::byte> payload, uint32_t tokens,
                         std::span<std::byte> block) {
  if (block.size() != shape.PayloadBytes(shape.rows.block_tokens) ||
      payload.size() < shape.tail_bytes) {
    return absl::InvalidArgumentError("draft rows of another size");
  }
  const size_t rows = payload.size() - shape.tail_bytes;
  BATON_RETURN_IF_ERROR(
      UnpackRows(shape.rows, payload.first(rows), tokens,
                 block.first(block.size() - shape.tail_bytes)));
  std::memcpy(block.last(shape.tail_bytes).data(), payload.data() + rows,
              shape.tail_bytes);
  return absl::OkStatus();
}

}  // namespace baton::worker
