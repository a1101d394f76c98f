// ModelService: what the gateway serves.
#ifndef BATON_GATEWAY_API_MODEL_SERVICE_H_
#define BATON_GATEWAY_API_MODEL_SERVICE_H_

#include "baton/v1/model.grpc.pb.h"
#include "gateway/prompt/request_builder.h"

namespace baton::gateway {

// Thread-safe. GetHeader is for workers and stays unimplemented here.
class ModelFront final : public v1::ModelService::CallbackService {
 public:
  // `models` must outlive the service.
  explicit ModelFront(const ModelSource* models) : models_(models) {}

  // Empty while no model is known.
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::ModelInfo* response) override;

 private:
  const ModelSource* const models_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_MODEL_SERVICE_H_
