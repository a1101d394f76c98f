// The KV store's values on the wire. Wire input is checked here, once.
#ifndef BATON_KVSTORE_CLIENT_OBJECT_CODEC_H_
#define BATON_KVSTORE_CLIENT_OBJECT_CODEC_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/kvstore.pb.h"
#include "google/protobuf/duration.pb.h"
#include "kvstore/block/object_info.h"

namespace baton::kvstore {

// Payloads travel in chunks of this many bytes; the last one is shorter.
// A receiver takes any size up to kMaxChunkBytes.
inline constexpr size_t kChunkBytes = size_t{512} << 10;
inline constexpr size_t kMaxChunkBytes = size_t{1} << 20;

v1::ObjectInfo EncodeObject(const ObjectInfo& object);
// InvalidArgument if the key has not 32 bytes.
absl::StatusOr<ObjectInfo> DecodeObject(const v1::ObjectInfo& wire);

google::protobuf::Duration EncodeDuration(absl::Duration duration);
// InvalidArgument if seconds or nanos are out of the type's range or differ in
// sign.
absl::StatusOr<absl::Duration> DecodeDuration(
    const google::protobuf::Duration& wire);

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_CLIENT_OBJECT_CODEC_H_
