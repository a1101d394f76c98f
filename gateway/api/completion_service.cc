#include "gateway/api/completion_service.h"

#include <utility>

#include "gateway/api/generation_codec.h"

namespace baton::gateway {
namespace {

SpecBuilder BuilderFor(const RequestBuilder* builder,
                       const grpc::CallbackServerContext& context,
                       const v1::CompletionRequest& request) {
  return
      [builder, input = CompletionFromProto(request, CallParameters(context))]()
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
                    BuilderFor(environment_.builder, *context, *request),
                    response);
}

grpc::ServerWriteReactor<v1::GenerationEvent>*
CompletionFront::StreamCompletion(grpc::CallbackServerContext* context,
                                  const v1::CompletionRequest* request) {
  return ReplyStream(environment_, context,
                     BuilderFor(environment_.builder, *context, *request));
}

}  // namespace baton::gateway
