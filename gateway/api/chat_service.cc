#include "gateway/api/chat_service.h"

#include <utility>

#include "gateway/api/generation_codec.h"

namespace baton::gateway {
namespace {

// Copies what it needs, since it runs after the handler has returned.
SpecBuilder BuilderFor(const ApiEnvironment& environment,
                       const grpc::CallbackServerContext& context,
                       const v1::ChatRequest& request) {
  return [builder = environment.builder,
          input = ChatFromProto(request,
                                CallParameters(context, *environment.clock))] {
    return builder->BuildChat(input);
  };
}

}  // namespace

grpc::ServerUnaryReactor* ChatFront::CreateChatCompletion(
    grpc::CallbackServerContext* context, const v1::ChatRequest* request,
    v1::GenerationResponse* response) {
  return ReplyUnary(environment_, context,
                    BuilderFor(environment_, *context, *request), response);
}

grpc::ServerWriteReactor<v1::GenerationEvent>* ChatFront::StreamChatCompletion(
    grpc::CallbackServerContext* context, const v1::ChatRequest* request) {
  return ReplyStream(environment_, context,
                     BuilderFor(environment_, *context, *request));
}

}  // namespace baton::gateway
