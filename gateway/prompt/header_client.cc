#include "gateway/prompt/header_client.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "baton/v1/model.grpc.pb.h"
#include "services/rpc/grpc_status.h"

namespace baton::gateway {
namespace {

// Deletes itself in OnDone.
class HeaderStream final : public grpc::ClientReadReactor<v1::HeaderChunk> {
 public:
  HeaderStream(std::shared_ptr<grpc::Channel> channel, size_t max_bytes,
               std::function<void(absl::StatusOr<std::string>)> done)
      : stub_(v1::ModelService::NewStub(channel)),
        max_bytes_(max_bytes),
        done_(std::move(done)) {}

  void Open(absl::Duration timeout) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    stub_->async()->GetHeader(&context_, &request_, this);
    StartRead(&chunk_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (bytes_.size() + chunk_.payload().size() > max_bytes_) {
      too_large_ = true;
      context_.TryCancel();
      return;
    }
    bytes_ += chunk_.payload();
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (too_large_) {
      done_(absl::ResourceExhaustedError("the model header is too large"));
    } else if (!status.ok()) {
      done_(rpc::FromGrpcStatus(status));
    } else {
      done_(std::move(bytes_));
    }
    delete this;
  }

 private:
  const std::unique_ptr<v1::ModelService::Stub> stub_;
  const size_t max_bytes_;
  const std::function<void(absl::StatusOr<std::string>)> done_;
  grpc::ClientContext context_;
  const v1::GetHeaderRequest request_;
  v1::HeaderChunk chunk_;
  std::string bytes_;
  bool too_large_ = false;
};

}  // namespace

void GrpcHeaderSource::Fetch(
    const std::string& address,
    std::function<void(absl::StatusOr<std::string>)> done) {
  auto* stream = new HeaderStream(channels_->Get(address), options_.max_bytes,
                                  std::move(done));
  stream->Open(options_.timeout);
}

}  // namespace baton::gateway
