// What passes from a prefill worker to a decode worker: it names bytes in the
// store and states the position contract; it never holds rows itself.
#ifndef BATON_WORKER_HANDOFF_HANDOFF_MANIFEST_H_
#define BATON_WORKER_HANDOFF_HANDOFF_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/block/block_key.h"
#include "kvstore/block/kv_layout.h"
#include "kvstore/client/kvstore_client.h"
#include "services/base/ids.h"

namespace baton::worker {

// What both sides must agree on before a byte is used.
struct PositionContract {
  uint32_t committed_tokens = 0;  // prompt plus first token
  uint32_t kv_tokens = 0;         // rows that the blocks cover
  TokenId pending_token = 0;      // committed, its row not yet computed
  uint32_t pending_position = 0;  // = committed_tokens - 1
  uint64_t random_counter = 0;    // position of the next draw
};

struct HandoffBlock {
  kvstore::ObjectInfo object;
  uint32_t tokens = 0;
  // Its draft groups; absent: nothing is drafted from them.
  std::optional<kvstore::ObjectInfo> draft;
};

struct HandoffManifest {
  HandoffId handoff;
  Epoch sender_epoch;
  kvstore::KvLayout layout;
  std::string kvstore_address;
  kvstore::Lease lease;  // id zero: nothing was published
  PositionContract position;
  // Contiguous from position 0; all but the last are full. The last may be
  // partial, then it is ephemeral and packed (block_packing.h).
  std::vector<HandoffBlock> blocks;
};

// Ok if `manifest` fits a receiver that has `tokens` (prompt and committed)
// under `root`: positions agree, blocks are contiguous, full but for the last,
// of the right size, and each key is the receiver's own for these tokens.
// FailedPrecondition "position contract: …" names the first disagreement.
absl::Status CheckPositionContract(const HandoffManifest& manifest,
                                   std::span<const TokenId> tokens,
                                   const kvstore::BlockKey& root,
                                   const kvstore::KvGroup& group,
                                   uint32_t block_tokens);

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_HANDOFF_MANIFEST_H_
