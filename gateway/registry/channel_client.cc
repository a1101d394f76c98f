#include "gateway/registry/channel_client.h"

#include "services/rpc/server.h"

namespace baton::gateway {

std::shared_ptr<grpc::Channel> ChannelCache::Get(const std::string& address) {
  MutexLock lock(&mutex_);
  std::shared_ptr<grpc::Channel>& channel = channels_[address];
  if (channel == nullptr) channel = rpc::MakeChannel(address);
  return channel;
}

}  // namespace baton::gateway
