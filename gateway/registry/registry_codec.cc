#include "gateway/registry/registry_codec.h"

namespace baton::gateway {
namespace {

WorkerRole RoleFromProto(v1::ServerRole role) {
  switch (role) {
    case v1::SERVER_ROLE_PREFILL:
      return WorkerRole::kPrefill;
    case v1::SERVER_ROLE_DECODE:
      return WorkerRole::kDecode;
    default:
      return WorkerRole::kAny;
  }
}

v1::ServerRole RoleToProto(WorkerRole role) {
  switch (role) {
    case WorkerRole::kPrefill:
      return v1::SERVER_ROLE_PREFILL;
    case WorkerRole::kDecode:
      return v1::SERVER_ROLE_DECODE;
    case WorkerRole::kAny:
      return v1::SERVER_ROLE_ANY;
  }
  return v1::SERVER_ROLE_UNSPECIFIED;
}

}  // namespace

bool IsWorkerRole(v1::ServerRole role) {
  return role == v1::SERVER_ROLE_PREFILL || role == v1::SERVER_ROLE_DECODE ||
         role == v1::SERVER_ROLE_ANY;
}

WorkerFacts FactsFromProto(const v1::ServerInfo& info) {
  WorkerFacts facts;
  facts.role = RoleFromProto(info.role());
  facts.epoch = Epoch(info.epoch());
  facts.model_name = info.model().name();
  facts.model_digest = info.model().model_digest();
  facts.header_digest = info.model().header_digest();
  facts.layout_fingerprint = info.layout().fingerprint();
  facts.numerics_id = info.layout().numerics_id();
  facts.architecture = info.model().architecture();
  facts.file_type = info.model().file_type();
  facts.context_length = info.model().context_length();
  facts.parameters = info.model().parameters();
  facts.file_bytes = info.model().file_bytes();
  facts.max_sequences = info.max_sequences();
  facts.kv_blocks_total = info.kv_blocks_total();
  return facts;
}

WorkerLoad LoadFromProto(const v1::ServerLoad& load) {
  return {load.running_sequences() + load.reservations(),
          load.waiting_sequences(), load.kv_blocks_total(),
          load.kv_blocks_used()};
}

v1::WorkerView WorkerViewToProto(const WorkerSnapshot& worker) {
  v1::WorkerView view;
  view.set_worker_id(worker.id.value());
  view.set_address(worker.address);
  view.set_role(RoleToProto(worker.role));
  view.set_ready(worker.ready);
  view.set_epoch(worker.epoch.value());
  view.set_state(worker.state);
  return view;
}

}  // namespace baton::gateway
