#include "gateway/registry/channel_client.h"

#include <algorithm>
#include <utility>

#include "services/rpc/channel.h"

namespace baton::gateway {

std::shared_ptr<grpc::Channel> ChannelCache::Get(const std::string& address) {
  std::shared_ptr<grpc::Channel> dropped;  // ends outside the lock
  MutexLock lock(&mutex_);
  auto it = channels_.find(address);
  if (it == channels_.end()) {
    if (channels_.size() >= kMaxChannels) {
      const auto oldest = std::min_element(
          channels_.begin(), channels_.end(), [](const auto& a, const auto& b) {
            return a.second.last_use < b.second.last_use;
          });
      dropped = std::move(oldest->second.channel);
      channels_.erase(oldest);
    }
    it = channels_.emplace(address, Entry{rpc::MakeChannel(address), 0}).first;
  }
  it->second.last_use = ++uses_;
  return it->second.channel;
}

size_t ChannelCache::size() const {
  MutexLock lock(&mutex_);
  return channels_.size();
}

}  // namespace baton::gateway
