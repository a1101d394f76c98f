#include "gateway/api/completion_service.h"

#include <utility>

#include "gateway/api/generation_codec.h"

namespace baton::gateway {
namespace {

SpecBuilder BuilderFor(const ApiEnvironment& environment,
                       const grpc::CallbackServerContext& context,
                       const v1::CompletionRequest& request) {
  return [builder = environment.builder,
          input = CompletionFromProto(
              request, CallParameters(context, *environment.clock))]()
             -> absl::StatusOr<GenerationSpec> {
    if (!input.ok()) return input.status();
    return builder->BuildCompletion(*input);
  };
}

}  // namespace

grpc::ServerUnaryReactor* CompletionFront::CreateCompletion(
    grpc::CallbackServerContext* context, const v1::CompletionRequest* request,
    v1::GenerationResponse* response) {
  return ReplyUnary(environment_, context,
                    BuilderFor(environment_, *context, *request), response);
}

grpc::ServerWriteReactor<v1::GenerationEvent>*
CompletionFront::StreamCompletion(grpc::CallbackServerContext* context,
                                  const v1::CompletionRequest* request) {
  return ReplyStream(environment_, context,
                     BuilderFor(environment_, *context, *request));
}

}  // namespace baton::gateway
