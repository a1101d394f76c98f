#include "gateway/flow/grpc_prefill_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "baton/v1/prefill.grpc.pb.h"
#include "gateway/flow/worker_codec.h"
#include "services/rpc/grpc_status.h"

namespace baton::gateway {
namespace {

// Keeps itself alive until OnDone, since gRPC holds a plain pointer to it.
class PrefillStream final : public WorkerStream,
                            public grpc::ClientReadReactor<v1::PrefillEvent> {
 public:
  PrefillStream(std::shared_ptr<grpc::Channel> channel,
                v1::PrefillRequest request, WorkerEventSink sink)
      : stub_(v1::PrefillService::NewStub(channel)),
        request_(std::move(request)),
        sink_(std::move(sink)) {}

  void Open(std::shared_ptr<PrefillStream> self, absl::Duration timeout) {
    self_ = std::move(self);
    context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    stub_->async()->Prefill(&context_, &request_, this);
    StartRead(&event_);
    StartCall();
  }

  void Cancel() override { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (auto event = EventFromProto(event_)) sink_(*std::move(event));
    StartRead(&event_);
  }

  void OnDone(const grpc::Status& status) override {
    const auto self = std::move(self_);
    // The sink holds the flow, which holds this stream: let go of it here.
    const auto sink = std::move(sink_);
    sink(WorkerClosed{rpc::FromGrpcStatus(status)});
  }

 private:
  const std::unique_ptr<v1::PrefillService::Stub> stub_;
  const v1::PrefillRequest request_;
  WorkerEventSink sink_;
  grpc::ClientContext context_;
  v1::PrefillEvent event_;
  std::shared_ptr<PrefillStream> self_;
};

}  // namespace

std::shared_ptr<WorkerStream> GrpcPrefillClient::Prefill(
    const std::string& address, const WorkerRequest& request,
    WorkerEventSink sink) {
  auto stream = std::make_shared<PrefillStream>(
      channels_->Get(address), PrefillToProto(request), std::move(sink));
  stream->Open(stream, StreamTimeout(*request.spec, clock_->Monotonic()));
  return stream;
}

}  // namespace baton::gateway
