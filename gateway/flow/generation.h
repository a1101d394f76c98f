// A generation as the gateway's fronts (api, http) ask for it and as the flow
// answers. Plain values: no gRPC, no JSON, so that both fronts share one path.
#ifndef BATON_GATEWAY_FLOW_GENERATION_H_
#define BATON_GATEWAY_FLOW_GENERATION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/base/ids.h"

namespace baton::gateway {

// Same meaning and ranges as baton.v1.SamplingParams; unset = the model's or
// the server's default, filled in by the text pipeline.
struct Sampling {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::optional<uint64_t> seed;
  bool logprobs = false;
  uint32_t top_logprobs = 0;
};

struct Limits {
  std::optional<uint32_t> max_tokens;
  uint32_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
};

// Which drafts it may have; unset = the worker's. Changes no token.
struct Speculation {
  std::optional<std::string> mode;  // services/base/draft_method.h
  std::optional<uint32_t> max;      // tokens drafted in a step at most
};

// What the flow runs: a tokenised prompt and its parameters.
struct GenerationSpec {
  RequestId request_id;
  std::string api;  // metrics label: chat, completions, grpc
  std::vector<TokenId> prompt;
  Sampling sampling;  // seed is set
  Limits limits;      // max_tokens is set
  Speculation speculation;
  std::string cache_salt;
  absl::Duration deadline;  // monotonic clock
  absl::Duration arrival;   // monotonic clock
};

enum class FinishReason { kStop, kLength, kAborted };

struct EmittedToken {
  TokenId token = 0;
  std::optional<float> logprob;
  std::vector<std::pair<TokenId, float>> top_logprobs;
};

struct PromptSources {
  uint32_t computed = 0;
  uint32_t local_cache = 0;
  uint32_t kv_store = 0;
};

struct GenerationReport {
  FinishReason finish_reason = FinishReason::kStop;
  uint32_t prompt_tokens = 0;
  uint32_t completion_tokens = 0;
  PromptSources sources;
  absl::Duration queue;
  absl::Duration prefill;  // compute, as the worker measured it
  absl::Duration decode;   // first token to last, as the gateway saw it
  absl::Duration time_to_first_token;
  absl::Duration handoff;
  uint64_t handoff_bytes = 0;
  std::string prefill_worker;  // empty = the decode worker computed the prompt
  std::string decode_worker;
  uint32_t resumes = 0;
  uint32_t corrupt_blocks = 0;
  uint32_t drafted_tokens = 0;   // that steps verified
  uint32_t accepted_tokens = 0;  // of those
  std::string route_reason;
};

// Receives one generation. Calls come one at a time, in order:
// OnProgress and OnText, then OnEnd or OnError once, then nothing.
class GenerationSink {
 public:
  virtual ~GenerationSink() = default;
  virtual void OnProgress(uint32_t processed, uint32_t total) = 0;
  // `text` may be empty while a UTF-8 sequence or a possible stop string is
  // incomplete; `tokens` are committed and counted.
  virtual void OnText(const std::string& text,
                      const std::vector<EmittedToken>& tokens) = 0;
  virtual void OnEnd(const GenerationReport& report) = 0;
  virtual void OnError(const absl::Status& status) = 0;
};

// A running generation, as its front holds it.
class GenerationHandle {
 public:
  virtual ~GenerationHandle() = default;
  // Ends it everywhere within one engine step. The sink still gets its one
  // OnError (kCancelled). Idempotent, thread-safe.
  virtual void Cancel() = 0;
};

// Starts generations. Implemented by gateway/flow; faked in tests of fronts.
// Thread-safe.
class Generator {
 public:
  virtual ~Generator() = default;
  // Admits or refuses (through sink->OnError: kResourceExhausted,
  // kUnavailable). Never blocks; the sink may be called before this returns.
  virtual std::shared_ptr<GenerationHandle> Start(
      GenerationSpec spec, std::shared_ptr<GenerationSink> sink) = 0;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_FLOW_GENERATION_H_
