// Counts and times every gRPC call a server handles, under the label names of
// go-grpc-prometheus. Edge code only.
#ifndef BATON_SERVICES_RPC_CALL_METRICS_H_
#define BATON_SERVICES_RPC_CALL_METRICS_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "services/telemetry/metrics.h"

namespace baton::rpc {

// `metrics` must outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallMetricsInterceptor(telemetry::MetricsRegistry* metrics);

}  // namespace baton::rpc

#endif  // BATON_SERVICES_RPC_CALL_METRICS_H_
