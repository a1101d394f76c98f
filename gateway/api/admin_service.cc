#include "gateway/api/admin_service.h"

#include <utility>

#include "gateway/api/unary_service.h"

namespace baton::gateway {

grpc::ServerUnaryReactor* AdminFront::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse* response) {
  absl::Duration timeout = options_.default_drain_timeout;
  if (request->has_deadline()) {
    timeout = absl::Seconds(request->deadline().seconds()) +
              absl::Nanoseconds(request->deadline().nanos());
  }
  return ReplyOnExecutor(context, executor_, [this, timeout, response] {
    response->set_remaining_requests(drain_(timeout));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminFront::FlushCache(
    grpc::CallbackServerContext* context, const v1::FlushCacheRequest*,
    v1::FlushCacheResponse*) {
  return ReplyNow(context, absl::OkStatus());
}

}  // namespace baton::gateway
