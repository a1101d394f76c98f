#include "kvstore/client/object_codec.h"

#include <algorithm>

#include "absl/status/status.h"
#include "services/base/status_macros.h"

namespace baton::kvstore {
namespace {

// google/protobuf/duration.proto: about 10,000 years either way.
constexpr int64_t kMaxSeconds = 315'576'000'000;
constexpr int32_t kMaxNanos = 999'999'999;

}  // namespace

v1::ObjectInfo EncodeObject(const ObjectInfo& object) {
  v1::ObjectInfo wire;
  wire.set_key(object.key.Raw());
  wire.set_generation(object.generation.value());
  wire.set_payload_bytes(object.payload_bytes);
  wire.set_crc32c(object.crc32c);
  return wire;
}

absl::StatusOr<ObjectInfo> DecodeObject(const v1::ObjectInfo& wire) {
  ObjectInfo object;
  BATON_ASSIGN_OR_RETURN(object.key, BlockKey::FromRaw(wire.key()));
  object.generation = Generation(wire.generation());
  object.payload_bytes = wire.payload_bytes();
  object.crc32c = wire.crc32c();
  return object;
}

google::protobuf::Duration EncodeDuration(absl::Duration duration) {
  const absl::Duration bound = absl::Seconds(kMaxSeconds);
  duration = std::clamp(duration, -bound, bound);
  google::protobuf::Duration wire;
  wire.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  wire.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return wire;
}

absl::StatusOr<absl::Duration> DecodeDuration(
    const google::protobuf::Duration& wire) {
  const bool in_range = wire.seconds() >= -kMaxSeconds &&
                        wire.seconds() <= kMaxSeconds &&
                        wire.nanos() >= -kMaxNanos && wire.nanos() <= kMaxNanos;
  const bool opposed = (wire.seconds() > 0 && wire.nanos() < 0) ||
                       (wire.seconds() < 0 && wire.nanos() > 0);
  if (!in_range || opposed) {
    return absl::InvalidArgumentError("malformed duration");
  }
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

}  // namespace baton::kvstore
