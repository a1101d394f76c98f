// One gRPC channel an address, shared by all clients of the gateway. It
// reconnects by itself. Addresses come and go, so only the last used channels
// are kept: twice what the registry holds, so that those of its workers, which
// are probed all the time, stay. Thread-safe.
#ifndef BATON_GATEWAY_REGISTRY_CHANNEL_CLIENT_H_
#define BATON_GATEWAY_REGISTRY_CHANNEL_CLIENT_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "services/base/mutex.h"

namespace baton::gateway {

class ChannelCache {
 public:
  static constexpr size_t kMaxChannels = 2048;

  // The channel lives as long as its users hold it.
  std::shared_ptr<grpc::Channel> Get(const std::string& address);

  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<grpc::Channel> channel;
    uint64_t last_use = 0;
  };

  mutable Mutex mutex_;
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Entry> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_REGISTRY_CHANNEL_CLIENT_H_
