#include "worker/api/model_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"
#include "services/rpc/grpc_status.h"
#include "worker/api/model_codec.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {
namespace {

constexpr size_t kHeaderChunkBytes = 256 << 10;

grpc::Status Loading() {
  return rpc::ToGrpcStatus(WithRetryAfter(
      WithReason(absl::UnavailableError("the model is still loading"),
                 "model_loading"),
      absl::Seconds(1)));
}

// Streams the header; gRPC deletes it through OnDone.
class HeaderCall final : public grpc::ServerWriteReactor<v1::HeaderChunk> {
 public:
  explicit HeaderCall(const WorkerContext* worker) {
    if (worker == nullptr) {
      Finish(Loading());
      return;
    }
    left_ = worker->header_bytes;
    WriteNext();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    WriteNext();
  }
  void OnDone() override { delete this; }

 private:
  void WriteNext() {
    if (left_.empty()) return Finish(grpc::Status::OK);
    const size_t size = std::min(left_.size(), kHeaderChunkBytes);
    chunk_.set_payload(left_.data(), size);
    left_.remove_prefix(size);
    StartWrite(&chunk_);
  }

  absl::string_view left_;  // the model outlives the server
  v1::HeaderChunk chunk_;
};

}  // namespace

grpc::ServerUnaryReactor* ModelService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const WorkerContext* worker = gate_->context();
  if (worker != nullptr) EncodeModel(*worker, response->add_models());
  reactor->Finish(worker == nullptr ? Loading() : grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::ModelInfo* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const WorkerContext* worker = gate_->context();
  if (worker == nullptr) {
    reactor->Finish(Loading());
  } else if (!request->name().empty() &&
             request->name() != worker->model->name) {
    reactor->Finish(rpc::ToGrpcStatus(absl::NotFoundError(
        absl::StrCat("no model \"", request->name(), "\" here"))));
  } else {
    EncodeModel(*worker, response);
    reactor->Finish(grpc::Status::OK);
  }
  return reactor;
}

grpc::ServerWriteReactor<v1::HeaderChunk>* ModelService::GetHeader(
    grpc::CallbackServerContext* context, const v1::GetHeaderRequest* request) {
  return new HeaderCall(gate_->context());
}

}  // namespace baton::worker
