#include "gateway/http/generation_handlers.h"

#include <utility>

#include "gateway/http/answer_sink.h"
#include "gateway/http/error_codec.h"
#include "services/base/status_macros.h"

namespace baton::gateway {

void GenerationHandlers::Chat(Call call) const {
  const absl::Status status = TryChat(call);
  if (!status.ok()) call.writer->Send(ErrorResponse(status));
}

void GenerationHandlers::Completion(Call call) const {
  const absl::Status status = TryCompletion(call);
  if (!status.ok()) call.writer->Send(ErrorResponse(status));
}

absl::Status GenerationHandlers::TryChat(const Call& call) const {
  BATON_ASSIGN_OR_RETURN(const Json body, ParseJsonObject(call.request.body));
  BATON_ASSIGN_OR_RETURN(ChatRequest request, ParseChatRequest(body));
  request.input.parameters.request_id = call.request_id;
  request.input.parameters.arrival = call.writer->start();
  return Run(call, AnswerKind::kChat, request.answer,
             builder_->BuildChat(request.input));
}

absl::Status GenerationHandlers::TryCompletion(const Call& call) const {
  BATON_ASSIGN_OR_RETURN(const Json body, ParseJsonObject(call.request.body));
  BATON_ASSIGN_OR_RETURN(CompletionRequest request,
                         ParseCompletionRequest(body));
  request.input.parameters.request_id = call.request_id;
  request.input.parameters.arrival = call.writer->start();
  return Run(call, AnswerKind::kCompletion, request.answer,
             builder_->BuildCompletion(request.input));
}

absl::Status GenerationHandlers::Run(
    const Call& call, AnswerKind kind, const AnswerOptions& options,
    absl::StatusOr<GenerationSpec> spec) const {
  if (!spec.ok()) return spec.status();
  AnswerContext context;
  context.kind = kind;
  context.options = options;
  context.id = spec->request_id.value();
  context.created_unix_seconds = absl::ToUnixSeconds(clock_->Now());
  context.seed = spec->sampling.seed.value_or(0);
  context.model = models_->Current();
  if (context.model == nullptr) return NoModelError(*models_);
  call.writer->SetRequestId(context.id);
  std::shared_ptr<GenerationSink> sink;
  if (options.stream) {
    auto streamed = std::make_shared<StreamedAnswerSink>(std::move(context),
                                                         call.writer, clock_);
    call.writer->OnSilent(ping_interval_,
                          [weak = std::weak_ptr<StreamedAnswerSink>(streamed)] {
                            if (auto alive = weak.lock()) alive->Ping();
                          });
    sink = std::move(streamed);
  } else {
    sink = std::make_shared<WholeAnswerSink>(std::move(context), call.writer);
  }
  std::shared_ptr<GenerationHandle> handle =
      generator_->Start(*std::move(spec), std::move(sink));
  if (handle != nullptr) {
    call.writer->OnClosed([handle] { handle->Cancel(); });
  }
  return absl::OkStatus();
}

}  // namespace baton::gateway
