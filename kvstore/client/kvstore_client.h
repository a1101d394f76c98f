// How a worker reaches the KV store. The interface is what worker code and its
// tests see; GrpcKvStoreClient (grpc_kvstore_client.h) is the real one.
//
// All calls block and may be made from any thread; none is made on a device
// thread or in an RPC callback. Every call has the deadline given in Options.
#ifndef BATON_KVSTORE_CLIENT_KVSTORE_CLIENT_H_
#define BATON_KVSTORE_CLIENT_KVSTORE_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kvstore/block/block_key.h"
#include "kvstore/block/object_info.h"
#include "services/base/ids.h"

namespace baton::kvstore {

// A lease as its holder knows it. It pins the objects that its lookup found
// and all that were committed under it.
struct Lease {
  LeaseId id;
  Epoch epoch;  // of the store; a restarted store knows no old lease
};

struct LookupResult {
  Lease lease;
  std::vector<ObjectInfo> hits;  // for the leading keys, in order
};

// Thread-safe.
class KvStoreClient {
 public:
  virtual ~KvStoreClient() = default;

  // Finds the longest run of leading `keys` and pins it in the same call. A
  // lease is granted even when nothing is found (and for no keys at all). The
  // store cuts `ttl` to its own bound; zero asks for that bound.
  virtual absl::StatusOr<LookupResult> Lookup(const HandoffId& handoff,
                                              std::span<const BlockKey> keys,
                                              absl::Duration ttl) = 0;

  // Reserve, write and commit in one. If the object is there already, it is
  // pinned and returned, and no byte is sent.
  // Errors: kResourceExhausted (no room), kAborted (lease or epoch gone),
  // kDataLoss (bytes were damaged on the way), kUnavailable.
  virtual absl::StatusOr<ObjectInfo> Publish(const Lease& lease,
                                             const BlockKey& key,
                                             std::span<const std::byte> payload,
                                             bool ephemeral) = 0;

  // Reads an object into `payload`, whose size must equal
  // `object.payload_bytes`. Checks each chunk's CRC, the whole CRC and, after
  // the copy, that the lease and the generation still hold; bytes may be used
  // only if the result is ok.
  // Errors: kNotFound, kAborted, kDataLoss (counted; the object is dropped
  // from the store), kUnavailable.
  virtual absl::Status Fetch(const Lease& lease, const ObjectInfo& object,
                             std::span<std::byte> payload) = 0;

  // Extends the lease, never shortens it. Errors: kAborted, kUnavailable.
  virtual absl::Status Renew(const Lease& lease, absl::Duration ttl) = 0;
  // Idempotent. Leases that are never released expire.
  virtual absl::Status Release(const Lease& lease) = 0;

  // "host:port", for manifests.
  virtual std::string address() const = 0;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_CLIENT_KVSTORE_CLIENT_H_
