// TokenizerService: text to tokens and back, with the served model.
#ifndef BATON_GATEWAY_API_TOKENIZER_SERVICE_H_
#define BATON_GATEWAY_API_TOKENIZER_SERVICE_H_

#include "baton/v1/tokenizer.grpc.pb.h"
#include "gateway/prompt/request_builder.h"
#include "services/base/executor.h"

namespace baton::gateway {

// Thread-safe. Errors: kUnavailable "model_loading"; kInvalidArgument.
class TokenizerFront final : public v1::TokenizerService::CallbackService {
 public:
  // Both must outlive the service.
  TokenizerFront(const ModelSource* models, Executor* executor)
      : models_(models), executor_(executor) {}

  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* context,
      const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* RenderChat(
      grpc::CallbackServerContext* context,
      const v1::RenderChatRequest* request,
      v1::RenderChatResponse* response) override;

 private:
  const ModelSource* const models_;
  Executor* const executor_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_TOKENIZER_SERVICE_H_
