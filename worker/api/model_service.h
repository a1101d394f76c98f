// baton.v1.ModelService of a worker: its one model, and the file's header for
// gateways that have no file. Edge code.
#ifndef BATON_WORKER_API_MODEL_SERVICE_H_
#define BATON_WORKER_API_MODEL_SERVICE_H_

#include "baton/v1/model.grpc.pb.h"
#include "worker/handoff/admission_gate.h"

namespace baton::worker {

// Thread-safe. While the model loads: UNAVAILABLE.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  // `gate` must outlive the server.
  explicit ModelService(const AdmissionGate* gate) : gate_(gate) {}

  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::ModelInfo* response) override;
  grpc::ServerWriteReactor<v1::HeaderChunk>* GetHeader(
      grpc::CallbackServerContext* context,
      const v1::GetHeaderRequest* request) override;

 private:
  const AdmissionGate* const gate_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_API_MODEL_SERVICE_H_
