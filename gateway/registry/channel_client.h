// One gRPC channel an address, shared by all clients of the gateway. A channel
// is kept for the life of the process: it reconnects by itself, and the
// number of addresses is bounded by the registry. Thread-safe.
#ifndef BATON_GATEWAY_REGISTRY_CHANNEL_CLIENT_H_
#define BATON_GATEWAY_REGISTRY_CHANNEL_CLIENT_H_

#include <grpcpp/channel.h>

#include <map>
#include <memory>
#include <string>

#include "services/base/mutex.h"

namespace baton::gateway {

class ChannelCache {
 public:
  std::shared_ptr<grpc::Channel> Get(const std::string& address);

 private:
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_CHANNEL_CLIENT_H_
