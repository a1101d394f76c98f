// What a worker's status means to the flow. Pure.
#ifndef BATON_GATEWAY_FLOW_FAILURE_POLICY_H_
#define BATON_GATEWAY_FLOW_FAILURE_POLICY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton::gateway {

// No other worker would answer otherwise: the request or the configuration is
// at fault.
inline bool IsFatal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return true;
    default:
      return false;
  }
}

// The connection or the process may be gone, so the registry should look
// again. Only what the transport says of a lost peer counts, since all requests
// on the worker pay for a look: a closed or silent connection is UNAVAILABLE,
// now and then UNKNOWN, which no worker sends. A stream that was cancelled or
// ran out of time says nothing about its worker.
inline bool IsConnectionLoss(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

// The worker answers and has no place now.
inline bool IsFull(const absl::Status& status) {
  return absl::IsResourceExhausted(status);
}

// A stream's clock and the flow's are read at different moments and may run
// apart by this much at the deadline.
inline constexpr absl::Duration kDeadlineMargin = absl::Milliseconds(50);

// True if a worker's stream ended, with `status`, because the request's own
// time is over and not by a fault of the worker's. `left`: time to the
// request's deadline; negative after it.
inline bool IsOwnDeadline(const absl::Status& status, absl::Duration left) {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return left <= kDeadlineMargin;
    default:
      return left <= absl::ZeroDuration();
  }
}

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_FAILURE_POLICY_H_
