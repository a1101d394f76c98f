// What a worker's status means to the flow. Pure.
#ifndef BATON_GATEWAY_FLOW_FAILURE_POLICY_H_
#define BATON_GATEWAY_FLOW_FAILURE_POLICY_H_

#include "absl/status/status.h"

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

// The connection or the process may be gone (gRPC reports a killed peer under
// any of these), so the registry should look again.
inline bool IsConnectionLoss(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:
      return false;
  }
}

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_FAILURE_POLICY_H_
