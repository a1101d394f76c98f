#include "gateway/flow/grpc_decode_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "baton/v1/decode.grpc.pb.h"
#include "gateway/flow/worker_codec.h"
#include "services/base/mutex.h"
#include "services/rpc/grpc_status.h"

namespace baton::gateway {
namespace {

// Keeps itself alive until OnDone, since gRPC holds a plain pointer to it.
//
// The start may be written from any thread, so the call is under a hold that
// ends when reading has ended and no write is under way; after that nothing is
// written.
class GrpcDecodeStream final
    : public DecodeStream,
      public grpc::ClientBidiReactor<v1::DecodeRequest, v1::DecodeEvent> {
 public:
  GrpcDecodeStream(std::shared_ptr<grpc::Channel> channel,
                   v1::DecodeRequest reserve, WorkerEventSink sink)
      : stub_(v1::DecodeService::NewStub(channel)),
        reserve_(std::move(reserve)),
        sink_(std::move(sink)) {}

  void Open(std::shared_ptr<GrpcDecodeStream> self, absl::Duration timeout) {
    self_ = std::move(self);
    context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    stub_->async()->Decode(&context_, this);
    AddHold();
    StartWrite(&reserve_);
    StartRead(&event_);
    StartCall();
  }

  void StartDecode(std::vector<TokenId> committed,
                   std::optional<ManifestBytes> manifest) override {
    auto start = StartToProto(committed, manifest);
    if (!start.ok()) {
      // The bytes came from a worker a moment ago; without a good manifest
      // the decode worker computes the prompt itself.
      start = StartToProto(committed, std::nullopt);
    }
    {
      MutexLock lock(&mutex_);
      if (reading_ended_) return;
      start_ = *std::move(start);
      start_pending_ = true;
      if (writing_) return;  // OnWriteDone goes on
      start_pending_ = false;
      writing_ = true;
    }
    StartWrite(&start_);
  }

  void Cancel() override { context_.TryCancel(); }

  void OnWriteDone(bool ok) override {
    bool write = false;
    bool release = false;
    {
      MutexLock lock(&mutex_);
      write = ok && start_pending_ && !reading_ended_;
      start_pending_ = false;
      writing_ = write;
      release = reading_ended_ && !writing_;
    }
    if (write) StartWrite(&start_);
    if (release) RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      if (auto event = EventFromProto(event_)) sink_(*std::move(event));
      StartRead(&event_);
      return;
    }
    bool release = false;
    {
      MutexLock lock(&mutex_);
      reading_ended_ = true;
      release = !writing_;
    }
    if (release) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    const auto self = std::move(self_);
    // The sink holds the flow, which holds this stream: let go of it here.
    const auto sink = std::move(sink_);
    sink(WorkerClosed{rpc::FromGrpcStatus(status)});
  }

 private:
  const std::unique_ptr<v1::DecodeService::Stub> stub_;
  const v1::DecodeRequest reserve_;
  WorkerEventSink sink_;
  grpc::ClientContext context_;
  v1::DecodeEvent event_;
  std::shared_ptr<GrpcDecodeStream> self_;
  v1::DecodeRequest start_;  // not touched once it is being written

  Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;  // the reservation
  bool start_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::shared_ptr<DecodeStream> GrpcDecodeClient::Open(
    const std::string& address, const WorkerRequest& request,
    WorkerEventSink sink) {
  auto stream = std::make_shared<GrpcDecodeStream>(
      channels_->Get(address), ReserveToProto(request), std::move(sink));
  stream->Open(stream, StreamTimeout(*request.spec, clock_->Monotonic()));
  return stream;
}

}  // namespace baton::gateway
