// What servers and channels of one process have in common.
#ifndef BATON_SERVICES_RPC_GRPC_RUNTIME_H_
#define BATON_SERVICES_RPC_GRPC_RUNTIME_H_

namespace baton::rpc {

// Both ends agree, or the server answers pings with GOAWAY.
inline constexpr int kKeepaliveTimeMs = 30'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;

// To be called before the first server or channel is made; cheap afterwards.
void PrepareGrpc();

}  // namespace baton::rpc

#endif  // BATON_SERVICES_RPC_GRPC_RUNTIME_H_
