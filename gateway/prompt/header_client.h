// HeaderSource over gRPC: ModelService.GetHeader.
#ifndef BATON_GATEWAY_PROMPT_HEADER_CLIENT_H_
#define BATON_GATEWAY_PROMPT_HEADER_CLIENT_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "gateway/prompt/served_model.h"
#include "gateway/registry/channel_client.h"

namespace baton::gateway {

class GrpcHeaderSource final : public HeaderSource {
 public:
  struct Options {
    absl::Duration timeout = absl::Seconds(60);
    size_t max_bytes = 256 << 20;
  };
  // `channels` must outlive all fetches.
  GrpcHeaderSource(const Options& options, ChannelCache* channels)
      : options_(options), channels_(channels) {}
  // Errors: the worker's; kResourceExhausted beyond max_bytes.
  void Fetch(const std::string& address,
             std::function<void(absl::StatusOr<std::string>)> done) override;

 private:
  const Options options_;
  ChannelCache* const channels_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_PROMPT_HEADER_CLIENT_H_
