// CompletionService: plain completion for clients and routers.
#ifndef BATON_GATEWAY_API_COMPLETION_SERVICE_H_
#define BATON_GATEWAY_API_COMPLETION_SERVICE_H_

#include "baton/v1/completion.grpc.pb.h"
#include "gateway/api/generation_service.h"

namespace baton::gateway {

// Thread-safe.
class CompletionFront final : public v1::CompletionService::CallbackService {
 public:
  explicit CompletionFront(const ApiEnvironment& environment)
      : environment_(environment) {}

  grpc::ServerUnaryReactor* CreateCompletion(
      grpc::CallbackServerContext* context,
      const v1::CompletionRequest* request,
      v1::GenerationResponse* response) override;
  grpc::ServerWriteReactor<v1::GenerationEvent>* StreamCompletion(
      grpc::CallbackServerContext* context,
      const v1::CompletionRequest* request) override;

 private:
  const ApiEnvironment environment_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_COMPLETION_SERVICE_H_
