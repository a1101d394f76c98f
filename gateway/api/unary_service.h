// One-message calls whose work runs on an executor.
#ifndef BATON_GATEWAY_API_UNARY_SERVICE_H_
#define BATON_GATEWAY_API_UNARY_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/status/status.h"
#include "services/base/executor.h"

namespace baton::gateway {

// Finishes the call with what `work` returns. Request and response outlive
// `work`: gRPC keeps both until the call is finished.
grpc::ServerUnaryReactor* ReplyOnExecutor(grpc::CallbackServerContext* context,
                                          Executor* executor,
                                          std::function<absl::Status()> work);

// Finishes the call at once.
grpc::ServerUnaryReactor* ReplyNow(grpc::CallbackServerContext* context,
                                   const absl::Status& status);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_UNARY_SERVICE_H_
