#include "gateway/api/generation_service.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "gateway/api/generation_codec.h"
#include "services/base/error_details.h"
#include "services/base/mutex.h"

namespace baton::gateway {
namespace {

// The link between a call that may be cancelled at any time and a generation
// that may not have begun. Thread-safe.
class CancelLink {
 public:
  void Set(std::shared_ptr<GenerationHandle> handle) {
    bool cancelled = false;
    {
      MutexLock lock(&mutex_);
      handle_ = handle;
      cancelled = cancelled_;
    }
    if (cancelled) handle->Cancel();
  }
  void Cancel() {
    std::shared_ptr<GenerationHandle> handle;
    {
      MutexLock lock(&mutex_);
      cancelled_ = true;
      handle = handle_;
    }
    if (handle != nullptr) handle->Cancel();
  }

 private:
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<GenerationHandle> handle_ ABSL_GUARDED_BY(mutex_);
};

std::string ModelName(const ApiEnvironment& environment) {
  const auto model = environment.models->Current();
  return model == nullptr ? "" : model->name;
}

// Builds the request on the executor and starts it with `reply` as its sink.
// Reply also has link() and OnSpec.
template <typename Reply>
void Launch(const ApiEnvironment& environment, std::shared_ptr<Reply> reply,
            SpecBuilder build) {
  const bool posted = environment.executor->Post([environment, reply, build] {
    auto spec = build();
    if (!spec.ok()) {
      reply->OnError(spec.status());
      return;
    }
    spec->api = "grpc";
    reply->OnSpec(*spec, ModelName(environment));
    reply->link().Set(environment.generator->Start(*std::move(spec), reply));
  });
  if (!posted) {
    reply->OnError(WithReason(absl::UnavailableError("the gateway is stopping"),
                              "draining"));
  }
}

class UnaryReply final : public grpc::ServerUnaryReactor,
                         public GenerationSink {
 public:
  UnaryReply(grpc::CallbackServerContext* context,
             v1::GenerationResponse* response)
      : context_(context), response_(response) {}
  void Own(std::shared_ptr<UnaryReply> self) { self_ = std::move(self); }
  CancelLink& link() { return link_; }

  void OnSpec(const GenerationSpec& spec, const std::string& model) {
    response_->set_id(spec.request_id.value());
    response_->set_model(model);
    response_->set_seed(spec.sampling.seed.value_or(0));
    position_ = static_cast<uint32_t>(spec.prompt.size());
  }
  void OnProgress(uint32_t, uint32_t) override {}
  void OnText(const std::string& text,
              const std::vector<EmittedToken>& tokens) override {
    response_->mutable_text()->append(text);
    AppendTokens(tokens, position_, response_->mutable_tokens());
    position_ += static_cast<uint32_t>(tokens.size());
  }
  void OnEnd(const GenerationReport& report) override {
    v1::GenerationEnd end = EndToProto(report);
    response_->set_finish_reason(end.finish_reason());
    *response_->mutable_usage() = std::move(*end.mutable_usage());
    *response_->mutable_timings() = std::move(*end.mutable_timings());
    *response_->mutable_cluster() = std::move(*end.mutable_cluster());
    Finish(grpc::Status::OK);
  }
  void OnError(const absl::Status& status) override {
    Finish(ToClientStatus(status, context_));
  }

  void OnCancel() override { link_.Cancel(); }
  void OnDone() override { const auto self = std::move(self_); }

 private:
  grpc::CallbackServerContext* const context_;
  v1::GenerationResponse* const response_;
  CancelLink link_;
  uint32_t position_ = 0;
  std::shared_ptr<UnaryReply> self_;
};

class StreamReply final : public grpc::ServerWriteReactor<v1::GenerationEvent>,
                          public GenerationSink {
 public:
  explicit StreamReply(grpc::CallbackServerContext* context)
      : context_(context) {}
  void Own(std::shared_ptr<StreamReply> self) { self_ = std::move(self); }
  CancelLink& link() { return link_; }

  void OnSpec(const GenerationSpec& spec, const std::string& model) {
    v1::GenerationEvent event;
    event.mutable_start()->set_id(spec.request_id.value());
    event.mutable_start()->set_model(model);
    event.mutable_start()->set_seed(spec.sampling.seed.value_or(0));
    position_ = static_cast<uint32_t>(spec.prompt.size());
    Send(std::move(event));
  }
  void OnProgress(uint32_t processed, uint32_t total) override {
    v1::GenerationEvent event;
    event.mutable_progress()->set_processed_tokens(processed);
    event.mutable_progress()->set_total_tokens(total);
    Send(std::move(event));
  }
  void OnText(const std::string& text,
              const std::vector<EmittedToken>& tokens) override {
    v1::GenerationEvent event;
    event.mutable_delta()->set_text(text);
    AppendTokens(tokens, position_, event.mutable_delta()->mutable_tokens());
    position_ += static_cast<uint32_t>(tokens.size());
    Send(std::move(event));
  }
  void OnEnd(const GenerationReport& report) override {
    v1::GenerationEvent event;
    *event.mutable_end() = EndToProto(report);
    Send(std::move(event));
    End(grpc::Status::OK);
  }
  void OnError(const absl::Status& status) override {
    End(ToClientStatus(status, context_));
  }

  void OnWriteDone(bool ok) override {
    if (!ok) link_.Cancel();
    {
      MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) broken_ = true;
    }
    Advance();
  }
  void OnCancel() override { link_.Cancel(); }
  void OnDone() override { const auto self = std::move(self_); }

 private:
  void Send(v1::GenerationEvent event) {
    {
      MutexLock lock(&mutex_);
      if (broken_) return;
      if (!Merge(&event)) waiting_.push_back(std::move(event));
    }
    Advance();
  }
  void End(grpc::Status status) {
    {
      MutexLock lock(&mutex_);
      end_ = std::move(status);
    }
    Advance();
  }
  // Joins `event` to the last one that waits, if both are of a kind.
  bool Merge(v1::GenerationEvent* event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (waiting_.empty()) return false;
    v1::GenerationEvent& last = waiting_.back();
    if (last.has_progress() && event->has_progress()) {
      last = std::move(*event);
      return true;
    }
    if (!last.has_delta() || !event->has_delta()) return false;
    last.mutable_delta()->mutable_text()->append(event->delta().text());
    last.mutable_delta()->mutable_tokens()->MergeFrom(event->delta().tokens());
    return true;
  }
  // Writes what waits; finishes when nothing does and the end is known.
  void Advance() {
    std::optional<grpc::Status> end;
    {
      MutexLock lock(&mutex_);
      if (writing_ || finished_) return;
      if (broken_) waiting_.clear();
      if (!waiting_.empty()) {
        event_ = std::move(waiting_.front());
        waiting_.pop_front();
        writing_ = true;
      } else if (end_.has_value()) {
        finished_ = true;
        end = *end_;
      } else {
        return;
      }
    }
    if (end.has_value()) {
      Finish(*end);
    } else {
      StartWrite(&event_);
    }
  }

  grpc::CallbackServerContext* const context_;
  CancelLink link_;
  uint32_t position_ = 0;
  v1::GenerationEvent event_;  // being written
  std::shared_ptr<StreamReply> self_;

  Mutex mutex_;
  std::deque<v1::GenerationEvent> waiting_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::ServerUnaryReactor* ReplyUnary(const ApiEnvironment& environment,
                                     grpc::CallbackServerContext* context,
                                     SpecBuilder build,
                                     v1::GenerationResponse* response) {
  auto reply = std::make_shared<UnaryReply>(context, response);
  reply->Own(reply);
  Launch(environment, reply, std::move(build));
  return reply.get();
}

grpc::ServerWriteReactor<v1::GenerationEvent>* ReplyStream(
    const ApiEnvironment& environment, grpc::CallbackServerContext* context,
    SpecBuilder build) {
  auto reply = std::make_shared<StreamReply>(context);
  reply->Own(reply);
  Launch(environment, reply, std::move(build));
  return reply.get();
}

}  // namespace baton::gateway
