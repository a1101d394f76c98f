// ChatService: chat for clients.
#ifndef BATON_GATEWAY_API_CHAT_SERVICE_H_
#define BATON_GATEWAY_API_CHAT_SERVICE_H_

#include "baton/v1/chat.grpc.pb.h"
#include "gateway/api/generation_service.h"

namespace baton::gateway {

// Thread-safe.
class ChatFront final : public v1::ChatService::CallbackService {
 public:
  explicit ChatFront(const ApiEnvironment& environment)
      : environment_(environment) {}

  grpc::ServerUnaryReactor* CreateChatCompletion(
      grpc::CallbackServerContext* context, const v1::ChatRequest* request,
      v1::GenerationResponse* response) override;
  grpc::ServerWriteReactor<v1::GenerationEvent>* StreamChatCompletion(
      grpc::CallbackServerContext* context,
      const v1::ChatRequest* request) override;

 private:
  const ApiEnvironment environment_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_CHAT_SERVICE_H_
