// Rows of a partly filled block, packed for the wire. A full block travels as
// its raw bytes [layers][K, V][kv_heads][block_tokens][head_dim]; of a partial
// one only the rows that hold tokens do:
// [layers][K, V][kv_heads][tokens][head_dim]. Pure functions.
#ifndef BATON_WORKER_HANDOFF_BLOCK_PACKING_H_
#define BATON_WORKER_HANDOFF_BLOCK_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/block/kv_layout.h"

namespace baton::worker {

// A block as strips of rows: one strip per (layer, K or V, head).
struct BlockShape {
  uint64_t strips = 0;
  uint32_t block_tokens = 0;
  uint64_t row_bytes = 0;  // head_dim elements, whatever their type

  // InvalidArgument if `group.block_bytes` is not a whole number of rows.
  static absl::StatusOr<BlockShape> Of(const kvstore::KvGroup& group,
                                       uint32_t block_tokens);
  uint64_t PayloadBytes(uint32_t tokens) const {
    return strips * row_bytes * tokens;
  }
};

// The first `tokens` (1..block_tokens) rows of each strip of `block`.
// InvalidArgument if `block` or `tokens` does not fit the shape.
absl::StatusOr<std::vector<std::byte>> PackRows(
    const BlockShape& shape, std::span<const std::byte> block, uint32_t tokens);

// Writes packed rows to their places in `block`; other rows stay as they are.
// InvalidArgument if a size does not fit the shape; then nothing is written.
absl::Status UnpackRows(const BlockShape& shape,
                        std::span<const std::byte> payload, uint32_t tokens,
                        std::span<std::byte> block);

// The draft groups of a block: the rows of "mtp", then the hidden row of
// "tail". They travel as one object, rows packed as above.
struct DraftShape {
  // KvLayout::DraftFingerprint, for their keys.
  kvstore::Digest fingerprint;
  BlockShape rows;
  uint64_t tail_bytes = 0;

  // Empty if `layout` has no draft groups. Errors: as BlockShape::Of.
  static absl::StatusOr<DraftShape> Of(const kvstore::KvLayout& layout);
  bool empty() const { return tail_bytes == 0; }
  uint64_t PayloadBytes(uint32_t tokens) const {
    return rows.PayloadBytes(tokens) + tail_bytes;
  }
};

// As PackRows and UnpackRows; `block`: BlockRef::draft_bytes.
absl::StatusOr<std::vector<std::byte>> PackDraft(
    const DraftShape& shape, std::span<const std::byte> block, uint32_t tokens);
absl::Status UnpackDraft(const DraftShape& shape,
                         std::span<const std::byte> payload, uint32_t tokens,
                         std::span<std::byte> block);

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_BLOCK_PACKING_H_
