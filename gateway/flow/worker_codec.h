// The worker services' messages to the flow's values and back.
#ifndef BATON_GATEWAY_FLOW_WORKER_CODEC_H_
#define BATON_GATEWAY_FLOW_WORKER_CODEC_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/decode.pb.h"
#include "baton/v1/prefill.pb.h"
#include "gateway/flow/worker_clients.h"

namespace baton::gateway {

v1::PrefillRequest PrefillToProto(const WorkerRequest& request);
v1::DecodeRequest ReserveToProto(const WorkerRequest& request);
// kInvalidArgument if the manifest's bytes are none.
absl::StatusOr<v1::DecodeRequest> StartToProto(
    const std::vector<TokenId>& committed,
    const std::optional<ManifestBytes>& manifest);

// nullopt for an event that this version does not know.
std::optional<WorkerEvent> EventFromProto(const v1::PrefillEvent& event);
std::optional<WorkerEvent> EventFromProto(const v1::DecodeEvent& event);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_WORKER_CODEC_H_
