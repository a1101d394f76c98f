// baton.v1.DecodeService: turns one stream's messages into calls of a
// DecodeRun and writes what it reports. Edge code.
#ifndef BATON_WORKER_DECODE_DECODE_SERVICE_H_
#define BATON_WORKER_DECODE_DECODE_SERVICE_H_

#include "baton/v1/decode.grpc.pb.h"
#include "worker/decode/reservation_table.h"
#include "worker/handoff/admission_gate.h"

namespace baton::worker {

// Thread-safe.
class DecodeService final : public v1::DecodeService::CallbackService {
 public:
  // Both must outlive the server.
  DecodeService(AdmissionGate* gate, ReservationTable* table)
      : gate_(gate), table_(table) {}

  grpc::ServerBidiReactor<v1::DecodeRequest, v1::DecodeEvent>* Decode(
      grpc::CallbackServerContext* context) override;

 private:
  AdmissionGate* const gate_;
  ReservationTable* const table_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_DECODE_DECODE_SERVICE_H_
