// From what a client sent to what the flow runs: renders the chat template,
// tokenises, fills in defaults, checks every range, mints ids and the seed.
// Both fronts (api, http) use this, so that a rule holds on both.
#ifndef BATON_GATEWAY_PROMPT_REQUEST_BUILDER_H_
#define BATON_GATEWAY_PROMPT_REQUEST_BUILDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gateway/flow/generation.h"
#include "gateway/prompt/parameter_checks.h"
#include "services/base/clock.h"
#include "services/text/chat_template.h"
#include "services/text/tokenizer.h"

namespace baton::gateway {

// The model that the cluster serves, with its text side. Immutable, shared.
struct ServedModel {
  std::string name;
  std::vector<std::string> aliases;  // further accepted names
  std::string architecture;
  uint32_t context_length = 0;
  uint64_t parameters = 0;
  uint64_t file_bytes = 0;
  std::string file_type;
  std::string digest;  // 32 raw bytes
  int64_t created_unix_seconds = 0;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;  // may be null
};

// Gives the model once it is known. Thread-safe.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  // nullptr while no worker has reported one that can be used.
  virtual std::shared_ptr<const ServedModel> Current() const = 0;
  // Why the model that the workers have cannot be used; ok if none was refused.
  virtual absl::Status Problem() const = 0;
};

struct GenerationParameters {
  std::string model;  // empty = the served one
  Sampling sampling;
  Limits limits;
  Speculation speculation;
  std::string cache_salt;
  std::string request_id;  // client's x-request-id; empty = mint one
  absl::Duration timeout = absl::InfiniteDuration();
  // When its last byte came, by the monotonic clock: what all times of the
  // request count from. None: when the builder got it.
  std::optional<absl::Duration> arrival;
  FieldNames names;  // for errors
};

struct ChatInput {
  std::vector<text::ChatTurn> turns;
  std::string template_kwargs_json;
  GenerationParameters parameters;
};

struct CompletionInput {
  std::variant<std::string, std::vector<TokenId>> prompt;
  GenerationParameters parameters;
};

// Thread-safe.
class RequestBuilder {
 public:
  struct Options {
    absl::Duration default_timeout = absl::Seconds(600);
    uint32_t max_stop_strings = 16;
    uint32_t max_stop_bytes = 256;
  };
  // Pointers must outlive this.
  RequestBuilder(const Options& options, const ModelSource* models,
                 const Clock* clock);

  // Errors, each with reason and field (services/base/error_details.h):
  //   kInvalidArgument "invalid_value": a field out of range, no messages, bad
  //     template kwargs, token id out of range, NaN
  //   kInvalidArgument "context_length_exceeded": prompt + max_tokens
  //   kNotFound "model_not_found"
  //   kUnavailable "model_loading", "model_unusable" with a retry hint
  //   kDeadlineExceeded: the timeout is not positive
  // Defaults: temperature 1, top_p 1, top_k 0, min_p 0 (the model's own
  // distribution); greedy is temperature 0. The deadline is the client's
  // timeout, at most default_timeout.
  // A completion limit beyond the context is an error only if the client set
  // it; otherwise the rest of the context is the limit.
  absl::StatusOr<GenerationSpec> BuildChat(const ChatInput& input) const;
  absl::StatusOr<GenerationSpec> BuildCompletion(
      const CompletionInput& input) const;

 private:
  absl::StatusOr<GenerationSpec> Build(const ServedModel& model,
                                       std::vector<TokenId> prompt,
                                       const GenerationParameters& parameters,
                                       absl::Duration built_at,
                                       const char* id_prefix,
                                       const char* api) const;

  const Options options_;
  const ModelSource* const models_;
  const Clock* const clock_;
};

// Why there is no model: kUnavailable "model_loading" while none is known, or
// "model_unusable", with the cause, if the workers' model was refused.
absl::Status NoModelError(const ModelSource& models);

// The model, or NoModelError, or kNotFound "model_not_found" if `name` is
// neither empty nor one of the model's names.
absl::StatusOr<std::shared_ptr<const ServedModel>> ResolveModel(
    const ModelSource& models, const std::string& name);

// A chat as the model reads it.
struct RenderedChat {
  std::vector<text::TextSpan> spans;
  std::vector<TokenId> tokens;
};

// Errors: kInvalidArgument "invalid_value", field messages (none, no usable
// chat template, refused by the template) or the kwargs' as `names` has it (no
// object, too deep or large, a variable that is not the client's).
absl::StatusOr<RenderedChat> RenderChat(
    const ServedModel& model, const std::vector<text::ChatTurn>& turns,
    const std::string& kwargs_json, const FieldNames& names);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_PROMPT_REQUEST_BUILDER_H_
