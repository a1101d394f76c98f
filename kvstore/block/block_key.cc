#include "kvstore/block/block_key.h"

#include <openssl/sha.h>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace baton::kvstore {
namespace {

constexpr absl::string_view kDomain = "baton-kv-1";
constexpr absl::string_view kDraftDomain = "baton-draft-1";

void AppendLe32(std::string* out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

void AppendFramed(std::string* out, absl::string_view part) {
  AppendLe32(out, static_cast<uint32_t>(part.size()));
  out->append(part.data(), part.size());
}

}  // namespace

std::string Digest::Hex() const { return absl::BytesToHexString(Raw()); }

std::string Digest::Raw() const {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::StatusOr<Digest> Digest::FromRaw(absl::string_view raw) {
  Digest digest;
  if (raw.size() != digest.bytes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a digest has 32 bytes, not ", raw.size()));
  }
  std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

Digest Sha256(absl::string_view bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         digest.bytes.data());
  return digest;
}

BlockKey RootKey(const Digest& layout_fingerprint, absl::string_view salt) {
  std::string framed;
  AppendFramed(&framed, kDomain);
  AppendFramed(&framed, layout_fingerprint.Raw());
  AppendFramed(&framed, salt);
  return Sha256(framed);
}

BlockKey NextKey(const BlockKey& parent, std::span<const TokenId> tokens) {
  std::string framed;
  framed.reserve(40 + 4 * tokens.size());
  AppendFramed(&framed, parent.Raw());
  AppendLe32(&framed, static_cast<uint32_t>(tokens.size()));
  for (TokenId token : tokens) {
    AppendLe32(&framed, static_cast<uint32_t>(token));
  }
  return Sha256(framed);
}

BlockKey DraftKey(const Digest& draft_fingerprint, const BlockKey& key) {
  std::string framed;
  AppendFramed(&framed, kDraftDomain);
  AppendFramed(&framed, draft_fingerprint.Raw());
  AppendFramed(&framed, key.Raw());
  return Sha256(framed);
}

std::vector<BlockKey> BlockKeys(const BlockKey& root,
                                std::span<const TokenId> tokens,
                                uint32_t block_tokens) {
  std::vector<BlockKey> keys;
  keys.reserve(tokens.size() / block_tokens);
  BlockKey parent = root;
  for (size_t start = 0; start + block_tokens <= tokens.size();
       start += block_tokens) {
    parent = NextKey(parent, tokens.subspan(start, block_tokens));
    keys.push_back(parent);
  }
  return keys;
}

}  // namespace baton::kvstore
