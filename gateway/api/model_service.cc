#include "gateway/api/model_service.h"

#include "gateway/api/generation_codec.h"
#include "gateway/api/unary_service.h"

namespace baton::gateway {

grpc::ServerUnaryReactor* ModelFront::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest*,
    v1::ListModelsResponse* response) {
  if (auto model = models_->Current()) {
    *response->add_models() = ModelToProto(*model);
  }
  return ReplyNow(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* ModelFront::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::ModelInfo* response) {
  auto model = ResolveModel(*models_, request->name());
  if (model.ok()) *response = ModelToProto(**model);
  return ReplyNow(context, model.status());
}

}  // namespace baton::gateway
