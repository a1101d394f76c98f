// absl::Status to grpc::Status and back, by equal code number. Messages are
// cut at 1 KiB. RESOURCE_EXHAUSTED and UNAVAILABLE carry a retry hint.
#ifndef BATON_SERVICES_RPC_GRPC_STATUS_H_
#define BATON_SERVICES_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace baton::rpc {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace baton::rpc

#endif  // BATON_SERVICES_RPC_GRPC_STATUS_H_
