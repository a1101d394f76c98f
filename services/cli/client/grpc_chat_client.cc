#include "services/cli/client/grpc_chat_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "baton/v1/chat.grpc.pb.h"
#include "baton/v1/tokenizer.grpc.pb.h"
#include "services/base/mutex.h"
#include "services/cli/client/address.h"
#include "services/rpc/channel.h"
#include "services/rpc/grpc_status.h"

namespace baton::cli {
namespace {

// Protobuf refuses text that is not UTF-8; what is not becomes U+FFFD, as over
// HTTP.
std::string Utf8(const std::string& text) {
  using Json = nlohmann::json;
  return Json::parse(
             Json(text).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

v1::ChatRequest ToRequest(const Question& question) {
  v1::ChatRequest request;
  request.set_model(question.model);
  for (const Turn& turn : question.turns) {
    v1::ChatMessage* message = request.add_messages();
    message->set_role(turn.role);
    message->set_content(Utf8(turn.content));
  }
  if (question.max_tokens) {
    request.mutable_limits()->set_max_tokens(*question.max_tokens);
  }
  request.mutable_limits()->set_ignore_eos(question.ignore_eos);
  v1::SamplingParams* sampling = request.mutable_sampling();
  if (question.temperature) sampling->set_temperature(*question.temperature);
  if (question.seed) sampling->set_seed(*question.seed);
  return request;
}

std::string FinishName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "aborted";
  }
}

void TakeEnd(const v1::GenerationEnd& end, Answer* answer) {
  answer->finish_reason = FinishName(end.finish_reason());
  answer->prompt_tokens = end.usage().prompt_tokens();
  answer->cached_tokens = end.usage().cached_tokens();
  answer->completion_tokens = end.usage().completion_tokens();
  const v1::Timings& timings = end.timings();
  answer->prompt_n = timings.prompt_n();
  answer->prompt_ms = timings.prompt_ms();
  answer->predicted_n = timings.predicted_n();
  answer->predicted_ms = timings.predicted_ms();
  answer->queue_ms = timings.queue_ms();
  answer->ttft_ms = timings.ttft_ms();
  answer->handoff_ms = timings.handoff_ms();
  answer->handoff_bytes = timings.handoff_bytes();
  const v1::ClusterReport& cluster = end.cluster();
  answer->prefill_worker = cluster.prefill_worker();
  answer->decode_worker = cluster.decode_worker();
  answer->local_cache_tokens = cluster.sources().local_cache_tokens();
  answer->kv_store_tokens = cluster.sources().kv_store_tokens();
  answer->resumes = cluster.resumes();
}

class GrpcChatClient final : public ChatSource {
 public:
  GrpcChatClient(const std::string& address, absl::Duration timeout)
      : address_(address),
        timeout_(timeout),
        channel_(rpc::MakeChannel(address)),
        stub_(v1::ChatService::NewStub(channel_)) {}

  absl::StatusOr<Answer> Ask(const Question& question,
                             const AnswerEvents& events) override {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(timeout_));
    context.set_wait_for_ready(false);
    if (!TrySetRunning(&context)) return absl::CancelledError("cancelled");
    auto stream = stub_->StreamChatCompletion(&context, ToRequest(question));
    Answer answer;
    bool answered = false;
    bool ended = false;
    v1::GenerationEvent event;
    while (stream->Read(&event)) {
      answered = true;
      ended = Take(event, events, &answer) || ended;
    }
    const grpc::Status status = stream->Finish();
    SetEnded();
    if (!status.ok()) {
      // A gateway that refuses has the same code over a channel that stands.
      const bool connected =
          channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
      if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !answered &&
          !connected) {
        return NoGateway(address_);
      }
      return rpc::FromGrpcStatus(status);
    }
    if (!ended) return absl::DataLossError("the stream has no end event");
    return answer;
  }

  void Cancel() override {
    MutexLock lock(&mutex_);
    if (running_ != nullptr) {
      running_->TryCancel();
    } else {
      cancel_next_ = true;
    }
  }

 private:
  bool TrySetRunning(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    if (std::exchange(cancel_next_, false)) return false;
    running_ = context;
    return true;
  }

  void SetEnded() {
    MutexLock lock(&mutex_);
    running_ = nullptr;
  }

  // True for the last event.
  static bool Take(const v1::GenerationEvent& event, const AnswerEvents& events,
                   Answer* answer) {
    switch (event.event_case()) {
      case v1::GenerationEvent::kStart:
        answer->seed = event.start().seed();
        return false;
      case v1::GenerationEvent::kProgress:
        if (events.on_progress) {
          events.on_progress(event.progress().processed_tokens(),
                             event.progress().total_tokens());
        }
        return false;
      case v1::GenerationEvent::kDelta: {
        for (const v1::CommittedToken& token : event.delta().tokens()) {
          answer->token_ids.push_back(token.token_id());
        }
        answer->text.append(event.delta().text());
        const uint32_t count = event.delta().tokens_size();
        if (events.on_text) events.on_text(event.delta().text(), count);
        return false;
      }
      case v1::GenerationEvent::kEnd:
        TakeEnd(event.end(), answer);
        return true;
      case v1::GenerationEvent::EVENT_NOT_SET:
        return false;
    }
    return false;
  }

  const std::string address_;
  const absl::Duration timeout_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::ChatService::Stub> stub_;
  Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancel_next_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<ChatSource> MakeGrpcChatClient(const std::string& address,
                                               absl::Duration timeout) {
  return std::make_unique<GrpcChatClient>(address, timeout);
}

absl::StatusOr<uint32_t> CountTokens(const std::string& address,
                                     const std::string& text) {
  auto stub = v1::TokenizerService::NewStub(rpc::MakeChannel(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(10));
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeResponse response;
  const grpc::Status status = stub->Tokenize(&context, request, &response);
  if (!status.ok()) return rpc::FromGrpcStatus(status);
  return response.ids_size();
}

}  // namespace baton::cli
