// The key chain: a block's key names all tokens up to its end, under one
// cache layout and one tenant.
//
//   H_0 = SHA256(domain | layout fingerprint | salt)
//   H_i = SHA256(H_{i-1} | framed token ids)
//
// Every part is preceded by its length, so that no two inputs share a framing.
// Keys are full 32-byte digests: a collision would serve a wrong answer.
#ifndef BATON_KVSTORE_BLOCK_BLOCK_KEY_H_
#define BATON_KVSTORE_BLOCK_BLOCK_KEY_H_

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/ids.h"

namespace baton::kvstore {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
  // 64 lower-case hexadecimal digits.
  std::string Hex() const;
  // The 32 raw bytes, for the wire.
  std::string Raw() const;
  // InvalidArgument unless `raw` has 32 bytes.
  static absl::StatusOr<Digest> FromRaw(absl::string_view raw);
  template <typename H>
  friend H AbslHashValue(H h, const Digest& digest) {
    return H::combine(std::move(h), digest.bytes);
  }
};

using BlockKey = Digest;

// SHA-256 of `bytes`.
Digest Sha256(absl::string_view bytes);

// H_0. `salt` separates tenants; empty is the shared class.
BlockKey RootKey(const Digest& layout_fingerprint, absl::string_view salt);

// H_i from H_{i-1} and the block's token ids (1 to block_tokens of them: a
// partial last block has a key of its own, since the count is framed).
BlockKey NextKey(const BlockKey& parent, std::span<const TokenId> tokens);

// The key of the draft rows that belong to block `key`: a key space of its own
// for each MTP block (KvLayout::DraftFingerprint).
BlockKey DraftKey(const Digest& draft_fingerprint, const BlockKey& key);

// Keys of all full blocks of `tokens`, in order.
std::vector<BlockKey> BlockKeys(const BlockKey& root,
                                std::span<const TokenId> tokens,
                                uint32_t block_tokens);

// The longest prefix, in tokens, that a cache may serve to a prompt of
// `prompt_tokens`: whole blocks, and always at least one token is computed,
// since its logits are needed. 64·⌊(n−1)/64⌋ for 64-token blocks.
constexpr uint32_t ReusableTokens(uint32_t prompt_tokens,
                                  uint32_t block_tokens) {
  return prompt_tokens == 0 ? 0
                            : (prompt_tokens - 1) / block_tokens * block_tokens;
}

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_BLOCK_BLOCK_KEY_H_
