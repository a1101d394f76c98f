#include "gateway/api/unary_service.h"

#include <utility>

#include "gateway/api/generation_codec.h"

namespace baton::gateway {

grpc::ServerUnaryReactor* ReplyOnExecutor(grpc::CallbackServerContext* context,
                                          Executor* executor,
                                          std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted =
      executor->Post([context, reactor, work = std::move(work)] {
        reactor->Finish(ToClientStatus(work(), context));
      });
  if (!posted) {
    reactor->Finish(ToClientStatus(
        absl::UnavailableError("the gateway is stopping"), context));
  }
  return reactor;
}

grpc::ServerUnaryReactor* ReplyNow(grpc::CallbackServerContext* context,
                                   const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToClientStatus(status, context));
  return reactor;
}

}  // namespace baton::gateway
