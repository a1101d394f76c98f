#include "gateway/api/tokenizer_service.h"

#include "gateway/api/generation_codec.h"
#include "gateway/api/unary_service.h"
#include "gateway/prompt/parameter_checks.h"
#include "services/base/status_macros.h"

namespace baton::gateway {

grpc::ServerUnaryReactor* TokenizerFront::Tokenize(
    grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  return ReplyOnExecutor(
      context, executor_, [this, request, response]() -> absl::Status {
        BATON_ASSIGN_OR_RETURN(auto model, ResolveModel(*models_, ""));
        const auto ids = model->tokenizer->Encode(
            request->text(), request->add_special(), request->parse_special());
        response->mutable_ids()->Add(ids.begin(), ids.end());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TokenizerFront::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  return ReplyOnExecutor(
      context, executor_, [this, request, response]() -> absl::Status {
        BATON_ASSIGN_OR_RETURN(auto model, ResolveModel(*models_, ""));
        text::StreamingDetokenizer detokenizer(model->tokenizer.get());
        for (TokenId token : request->ids()) {
          BATON_RETURN_IF_ERROR(
              CheckToken(token, "ids", model->tokenizer->vocabulary_size()));
          response->mutable_text()->append(detokenizer.Append(token));
        }
        response->mutable_text()->append(detokenizer.Flush());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* TokenizerFront::RenderChat(
    grpc::CallbackServerContext* context, const v1::RenderChatRequest* request,
    v1::RenderChatResponse* response) {
  return ReplyOnExecutor(
      context, executor_, [this, request, response]() -> absl::Status {
        BATON_ASSIGN_OR_RETURN(auto model, ResolveModel(*models_, ""));
        BATON_ASSIGN_OR_RETURN(
            RenderedChat chat,
            gateway::RenderChat(*model, TurnsFromProto(request->messages()),
                                request->chat_template_kwargs_json(),
                                ProtoFieldNames()));
        for (const text::TextSpan& span : chat.spans) {
          response->mutable_text()->append(span.text);
        }
        response->mutable_ids()->Add(chat.tokens.begin(), chat.tokens.end());
        return absl::OkStatus();
      });
}

}  // namespace baton::gateway
