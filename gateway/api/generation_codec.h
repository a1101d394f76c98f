// The client services' messages to the gateway's values and back.
#ifndef BATON_GATEWAY_API_GENERATION_CODEC_H_
#define BATON_GATEWAY_API_GENERATION_CODEC_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/chat.pb.h"
#include "baton/v1/completion.pb.h"
#include "baton/v1/model.pb.h"
#include "gateway/flow/generation.h"
#include "gateway/prompt/request_builder.h"
#include "services/base/clock.h"

namespace baton::gateway {

// The timeout and the client's x-request-id come with the call; it arrives now.
GenerationParameters CallParameters(const grpc::ServerContextBase& context,
                                    const Clock& clock);

// The names that differ from HTTP's.
FieldNames ProtoFieldNames();

// `call` gives what the message does not say.
ChatInput ChatFromProto(const v1::ChatRequest& request,
                        GenerationParameters call);
// kInvalidArgument if there is no prompt.
absl::StatusOr<CompletionInput> CompletionFromProto(
    const v1::CompletionRequest& request, GenerationParameters call);
std::vector<text::ChatTurn> TurnsFromProto(
    const google::protobuf::RepeatedPtrField<v1::ChatMessage>& messages);

// `position` is that of the first of `tokens` in the sequence.
void AppendTokens(const std::vector<EmittedToken>& tokens, uint32_t position,
                  google::protobuf::RepeatedPtrField<v1::CommittedToken>* out);
v1::GenerationEnd EndToProto(const GenerationReport& report);
v1::ModelInfo ModelToProto(const ServedModel& model);

// Code and message; what is beyond them goes into the trailing metadata:
// baton-reason, baton-field, retry-after-ms.
grpc::Status ToClientStatus(const absl::Status& status,
                            grpc::ServerContextBase* context);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_GENERATION_CODEC_H_
