// What the chat and completion services share: the two kinds of answer (one
// message, or a stream of events) as receivers of a generation.
//
// A reply owns itself from the call's start to gRPC's OnDone. A client that
// leaves cancels the generation. A client that reads slowly finds several
// deltas in one event; what waits for it is bounded by the answer's length.
#ifndef BATON_GATEWAY_API_GENERATION_SERVICE_H_
#define BATON_GATEWAY_API_GENERATION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/completion.pb.h"
#include "gateway/flow/generation.h"
#include "gateway/prompt/request_builder.h"
#include "services/base/clock.h"
#include "services/base/executor.h"

namespace baton::gateway {

// What the front's services use; all outlive them. Building a prompt takes a
// while, so it runs on `executor`, never on an RPC thread.
struct ApiEnvironment {
  Generator* generator = nullptr;
  const RequestBuilder* builder = nullptr;
  const ModelSource* models = nullptr;
  Executor* executor = nullptr;
  const Clock* clock = nullptr;
};

using SpecBuilder = std::function<absl::StatusOr<GenerationSpec>()>;

// Runs the generation that `build` gives and answers with all of it.
grpc::ServerUnaryReactor* ReplyUnary(const ApiEnvironment& environment,
                                     grpc::CallbackServerContext* context,
                                     SpecBuilder build,
                                     v1::GenerationResponse* response);

// The same as a stream: start, progress and deltas, end.
grpc::ServerWriteReactor<v1::GenerationEvent>* ReplyStream(
    const ApiEnvironment& environment, grpc::CallbackServerContext* context,
    SpecBuilder build);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_API_GENERATION_SERVICE_H_
