// The form of what a worker says of itself when it registers. Pure.
#ifndef BATON_GATEWAY_REGISTRY_WORKER_ADDRESS_H_
#define BATON_GATEWAY_REGISTRY_WORKER_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton::gateway {

// Errors of both: kInvalidArgument with the field at fault, never quoting more
// than is fit for a log line.

// 1 to 128 printable ASCII characters.
absl::Status CheckWorkerId(absl::string_view id);
// "host:port", "[v6]:port" or "dns:///host:port", the host a name of letters,
// digits, '-', '_' and '.' or an address, the port 1 to 65535. Not what else
// gRPC would dial: sockets of this machine, other resolvers.
absl::Status CheckWorkerAddress(absl::string_view address);

// True if `address` reaches the listener `own` ("host:port") of this process:
// the same port, and the same host or one that stands for this machine where
// `own` does. A well-formed address only.
bool IsOwnAddress(absl::string_view address, absl::string_view own);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_WORKER_ADDRESS_H_
