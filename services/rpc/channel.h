// One gRPC channel as every Baton process opens it. Edge code only.
#ifndef BATON_SERVICES_RPC_CHANNEL_H_
#define BATON_SERVICES_RPC_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace baton::rpc {

// A channel with Baton's keepalive, message limits and local retry policy off
// (retries belong to gateway/flow). `address`: "host:port" or "dns:///…".
// Its last owner may let go of it on any thread, one of gRPC's included.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

}  // namespace baton::rpc

#endif  // BATON_SERVICES_RPC_CHANNEL_H_
