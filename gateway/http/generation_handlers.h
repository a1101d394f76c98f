// POST /v1/chat/completions and /v1/completions: parse, build, start, and tie
// the connection to the generation, so that either's end is the other's.
#ifndef BATON_GATEWAY_HTTP_GENERATION_HANDLERS_H_
#define BATON_GATEWAY_HTTP_GENERATION_HANDLERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gateway/flow/generation.h"
#include "gateway/http/answer_codec.h"
#include "gateway/http/request_codec.h"
#include "gateway/http/route_table.h"
#include "gateway/prompt/request_builder.h"
#include "services/base/clock.h"

namespace baton::gateway {

// Thread-safe.
class GenerationHandlers {
 public:
  // Pointers must outlive this. `ping_interval`: the longest silence of a
  // stream before a comment is sent.
  GenerationHandlers(Generator* generator, const RequestBuilder* builder,
                     const ModelSource* models,
                     std::shared_ptr<const Clock> clock,
                     absl::Duration ping_interval)
      : generator_(generator),
        builder_(builder),
        models_(models),
        clock_(std::move(clock)),
        ping_interval_(ping_interval) {}

  void Chat(Call call) const;
  void Completion(Call call) const;

 private:
  absl::Status TryChat(const Call& call) const;
  absl::Status TryCompletion(const Call& call) const;
  absl::Status Run(const Call& call, AnswerKind kind,
                   const AnswerOptions& options,
                   absl::StatusOr<GenerationSpec> spec) const;

  Generator* const generator_;
  const RequestBuilder* const builder_;
  const ModelSource* const models_;
  const std::shared_ptr<const Clock> clock_;
  const absl::Duration ping_interval_;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_GENERATION_HANDLERS_H_
