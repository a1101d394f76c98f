#include <gtest/gtest.h>

#include <limits>

#include "kvstore/client/object_codec.h"
#include "kvstore/client/transfer_metrics.h"
#include "tests/support/kvstore_fakes.h"

namespace baton::kvstore {
namespace {

google::protobuf::Duration Wire(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration wire;
  wire.set_seconds(seconds);
  wire.set_nanos(nanos);
  return wire;
}

TEST(ObjectCodecTest, ObjectsRoundTripAndOddKeysAreRefused) {
  const ObjectInfo object = {TestKey(7), Generation(~uint64_t{0}), 123, 456};
  v1::ObjectInfo wire = EncodeObject(object);
  EXPECT_EQ(DecodeObject(wire).value(), object);
  wire.set_key("31 bytes are too few for it ...");
  EXPECT_EQ(DecodeObject(wire).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ObjectCodecTest, DurationsRoundTrip) {
  for (absl::Duration duration :
       {absl::ZeroDuration(), absl::Milliseconds(1500), absl::Nanoseconds(-1),
        absl::Seconds(-3) - absl::Milliseconds(250), absl::Hours(99999)}) {
    EXPECT_EQ(DecodeDuration(EncodeDuration(duration)).value(), duration);
  }
}

TEST(ObjectCodecTest, EndlessDurationsAreCutToTheWireRange) {
  EXPECT_EQ(DecodeDuration(EncodeDuration(absl::InfiniteDuration())).value(),
            absl::Seconds(315'576'000'000));
  EXPECT_EQ(DecodeDuration(EncodeDuration(-absl::InfiniteDuration())).value(),
            absl::Seconds(-315'576'000'000));
}

TEST(ObjectCodecTest, MalformedDurationsAreRefused) {
  for (const auto& wire : {Wire(1, -1), Wire(-1, 1), Wire(0, 1'000'000'000),
                           Wire(0, std::numeric_limits<int32_t>::min()),
                           Wire(std::numeric_limits<int64_t>::max(), 0),
                           Wire(-315'576'000'001, 0)}) {
    EXPECT_EQ(DecodeDuration(wire).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wire.ShortDebugString();
  }
}

TEST(TransferMetricsTest, EveryCodeHasAReason) {
  EXPECT_EQ(FailureReason(absl::DeadlineExceededError("")), "timeout");
  EXPECT_EQ(FailureReason(absl::DataLossError("")), "crc");
  EXPECT_EQ(FailureReason(absl::FailedPreconditionError("")), "layout");
  EXPECT_EQ(FailureReason(absl::AbortedError("")), "expired");
  EXPECT_EQ(FailureReason(absl::NotFoundError("")), "expired");
  EXPECT_EQ(FailureReason(absl::ResourceExhaustedError("")), "no_room");
  EXPECT_EQ(FailureReason(absl::UnavailableError("")), "unavailable");
  EXPECT_EQ(FailureReason(absl::UnknownError("")), "unavailable");
}

}  // namespace
}  // namespace baton::kvstore
