// What makes cached bytes interchangeable: two workers with the same layout
// fingerprint write the same bits for the same tokens. Anything that could
// change a bit is in it.
#ifndef BATON_KVSTORE_BLOCK_KV_LAYOUT_H_
#define BATON_KVSTORE_BLOCK_KV_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kvstore/block/block_key.h"

namespace baton::kvstore {

// One named group of cache tensors (see ARCHITECTURE.md, "Sequence state").
struct KvGroup {
  std::string name;   // "attn"
  std::string kind;   // "full_suffix" or "latest_snapshot"
  std::string dtype;  // "f16"
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  // A full block: layers * 2 (K, V) * kv_heads * block_tokens * head_dim
  // elements, contiguous in this order.
  uint64_t block_bytes = 0;
  bool operator==(const KvGroup&) const = default;
};

struct KvLayout {
  static constexpr uint32_t kVersion = 1;

  Digest model_digest;       // SHA-256 of the model file
  std::string architecture;  // "llama"
  // Everything else of the architecture that the rows depend on, as text:
  // RoPE parameters, norm epsilon, head counts.
  std::string parameters;
  std::string numerics_mode;  // "strict"
  std::string numerics_id;    // kernel revision, ggml, instruction set
  uint32_t block_tokens = 64;
  // Target groups, then draft groups ("mtp", "tail").
  std::vector<KvGroup> groups;
  // Of what the draft groups' rows depend on beside the model; zero without.
  Digest draft_digest;

  // SHA-256 over all fields above and kVersion, each framed by its length, but
  // for those of the draft groups.
  Digest Fingerprint() const;
  // SHA-256 over the draft groups and their digest: for DraftKey.
  Digest DraftFingerprint() const;
  // Of a full block, all target groups; all draft groups, 0 without.
  uint64_t TargetBytes() const;
  uint64_t DraftBytes() const;

  // Bytes of a block of `tokens` (1..block_tokens) rows of `group`.
  static uint64_t PayloadBytes(const KvGroup& group, uint32_t block_tokens,
                               uint32_t tokens) {
    return group.block_bytes / block_tokens * tokens;
  }
};

// Ok if a receiver with layout `mine` may import blocks of `theirs`. Groups
// are compared by name: a target group ("attn", "state") that differs is fatal.
// Draft groups may differ or be absent; then nothing is drafted from them.
// FailedPrecondition names the first field that differs.
absl::Status CheckCompatible(const KvLayout& mine, const KvLayout& theirs);

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_BLOCK_KV_LAYOUT_H_
