// baton.v1.PrefillService: checks the request, starts a PrefillRun and writes
// what it reports. Edge code.
#ifndef BATON_WORKER_PREFILL_PREFILL_SERVICE_H_
#define BATON_WORKER_PREFILL_PREFILL_SERVICE_H_

#include "baton/v1/prefill.grpc.pb.h"
#include "worker/handoff/admission_gate.h"

namespace baton::worker {

// Thread-safe.
class PrefillService final : public v1::PrefillService::CallbackService {
 public:
  // `gate` must outlive the server.
  explicit PrefillService(AdmissionGate* gate) : gate_(gate) {}

  grpc::ServerWriteReactor<v1::PrefillEvent>* Prefill(
      grpc::CallbackServerContext* context,
      const v1::PrefillRequest* request) override;

 private:
  AdmissionGate* const gate_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PREFILL_PREFILL_SERVICE_H_
