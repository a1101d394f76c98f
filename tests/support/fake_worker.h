// A worker without a model: real gRPC on a loopback port, answers made up.
// The token at index i of an answer is a function of i alone (a, b, c, …), as
// strict numerics promise, and the answer ends after `answer_tokens`.
#ifndef BATON_TESTS_SUPPORT_FAKE_WORKER_H_
#define BATON_TESTS_SUPPORT_FAKE_WORKER_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/v1/decode.grpc.pb.h"
#include "baton/v1/discovery.grpc.pb.h"
#include "baton/v1/prefill.grpc.pb.h"
#include "services/base/mutex.h"
#include "services/rpc/server.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/fake_tokenizer.h"

namespace baton::testing_support {

// How a fake worker behaves; set before or between calls.
struct FakeBehaviour {
  uint32_t answer_tokens = 10;
  // Decode: breaks the stream off after this many tokens of its own.
  std::optional<uint32_t> break_after;
  // Decode: after this many tokens waits until the call is cancelled.
  std::optional<uint32_t> hang_after;
  // The same, but only for prompts of this many tokens.
  std::optional<uint32_t> hang_prompt;
  // Prefill: fails before or after the first token.
  std::optional<grpc::Status> fail_before_first;
  std::optional<grpc::Status> fail_after_first;
};

class FakeWorker final : public v1::DecodeService::Service,
                         public v1::PrefillService::Service,
                         public v1::DiscoveryService::Service {
 public:
  FakeWorker(v1::ServerRole role, uint64_t epoch)
      : role_(role),
        epoch_(epoch),
        metrics_(telemetry::PrometheusMetrics::Create("fake")) {
    auto server =
        rpc::Server::Start({},
                           {static_cast<v1::DecodeService::Service*>(this),
                            static_cast<v1::PrefillService::Service*>(this),
                            static_cast<v1::DiscoveryService::Service*>(this)},
                           metrics_.get());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->SetServing(true);
  }
  ~FakeWorker() override { Kill(); }

  const std::string& address() const { return server_->address(); }
  // Ends all calls and connections at once.
  void Kill() { server_->Stop(absl::ZeroDuration()); }

  void Set(FakeBehaviour behaviour) {
    MutexLock lock(&mutex_);
    behaviour_ = std::move(behaviour);
  }
  // Of the decode starts so far.
  std::vector<v1::DecodeStart> starts() const {
    MutexLock lock(&mutex_);
    return starts_;
  }
  int open_calls() const { return open_calls_; }
  int prefills() const { return prefills_; }

  // --- DecodeService
  grpc::Status Decode(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::DecodeEvent, v1::DecodeRequest>* stream)
      override {
    const CallCount count(&open_calls_);
    v1::DecodeRequest request;
    if (!stream->Read(&request) || !request.has_reserve()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no reservation"};
    }
    const uint32_t prompt =
        static_cast<uint32_t>(request.reserve().token_ids_size());
    v1::DecodeEvent event;
    event.mutable_reserved()->set_epoch(epoch_);
    event.mutable_reserved()->set_layout_fingerprint("layout");
    stream->Write(event);
    if (!stream->Read(&request)) return grpc::Status::CANCELLED;
    const v1::DecodeStart start = request.start();
    FakeBehaviour behaviour;
    {
      MutexLock lock(&mutex_);
      starts_.push_back(start);
      behaviour = behaviour_;
    }
    event.mutable_started()->mutable_sources()->set_computed_tokens(prompt);
    stream->Write(event);
    return Generate(context, stream, behaviour, prompt,
                    static_cast<uint32_t>(start.committed_token_ids_size()));
  }

  // --- PrefillService
  grpc::Status Prefill(grpc::ServerContext*, const v1::PrefillRequest* request,
                       grpc::ServerWriter<v1::PrefillEvent>* writer) override {
    const CallCount count(&open_calls_);
    ++prefills_;
    FakeBehaviour behaviour;
    {
      MutexLock lock(&mutex_);
      behaviour = behaviour_;
    }
    if (behaviour.fail_before_first) return *behaviour.fail_before_first;
    const uint32_t prompt = static_cast<uint32_t>(request->token_ids_size());
    v1::PrefillEvent event;
    event.mutable_progress()->set_processed_tokens(prompt);
    event.mutable_progress()->set_total_tokens(prompt);
    writer->Write(event);
    v1::FirstToken* first = event.mutable_first_token();
    first->mutable_token()->set_token_id('a');
    first->mutable_token()->set_position(prompt);
    first->mutable_sources()->set_computed_tokens(prompt);
    writer->Write(event);
    if (behaviour.fail_after_first) return *behaviour.fail_after_first;
    event.mutable_manifest()->set_handoff_id(request->handoff_id());
    writer->Write(event);
    return grpc::Status::OK;
  }

  // --- DiscoveryService
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const v1::GetServerInfoRequest*,
                             v1::ServerInfo* info) override {
    info->set_role(role_);
    info->set_epoch(epoch_);
    info->mutable_model()->set_name("fake");
    info->mutable_model()->set_model_digest("model");
    info->mutable_layout()->set_fingerprint("layout");
    info->mutable_layout()->set_numerics_id("numerics");
    info->set_max_sequences(8);
    return grpc::Status::OK;
  }
  grpc::Status GetLoad(grpc::ServerContext*, const v1::GetLoadRequest*,
                       v1::ServerLoad*) override {
    return grpc::Status::OK;
  }

 private:
  class CallCount {
   public:
    explicit CallCount(std::atomic<int>* count) : count_(count) { ++*count_; }
    ~CallCount() { --*count_; }

   private:
    std::atomic<int>* const count_;
  };

  grpc::Status Generate(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::DecodeEvent, v1::DecodeRequest>* stream,
      const FakeBehaviour& behaviour, uint32_t prompt, uint32_t index) {
    for (uint32_t made = 0; index < behaviour.answer_tokens; ++index, ++made) {
      if (behaviour.break_after == made) {
        return {grpc::StatusCode::UNAVAILABLE, "broken off"};
      }
      if (behaviour.hang_after == made &&
          behaviour.hang_prompt.value_or(prompt) == prompt) {
        AwaitCancel(context);
        return grpc::Status::CANCELLED;
      }
      v1::DecodeEvent event;
      v1::CommittedToken* token = event.mutable_tokens()->add_tokens();
      token->set_position(prompt + index);
      token->set_token_id(index + 1 < behaviour.answer_tokens
                              ? static_cast<int>('a' + index % 26)
                              : kFakeEnd);
      if (!stream->Write(event)) return grpc::Status::CANCELLED;
    }
    v1::DecodeEvent event;
    event.mutable_finished()->set_reason(v1::FINISH_REASON_STOP);
    stream->Write(event);
    return grpc::Status::OK;
  }

  void AwaitCancel(grpc::ServerContext* context) {
    MutexLock lock(&mutex_);
    while (!context->IsCancelled()) {
      tick_.WaitWithTimeout(&mutex_, absl::Milliseconds(2));
    }
  }

  const v1::ServerRole role_;
  const uint64_t epoch_;
  const std::unique_ptr<telemetry::PrometheusMetrics> metrics_;
  mutable Mutex mutex_;
  CondVar tick_;
  FakeBehaviour behaviour_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::DecodeStart> starts_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> open_calls_{0};
  std::atomic<int> prefills_{0};
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_FAKE_WORKER_H_
