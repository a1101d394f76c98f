// The JSON of answers: completion objects, stream chunks, usage, timings,
// log-probabilities. Pure functions of what the flow reports.
#ifndef BATON_GATEWAY_HTTP_ANSWER_CODEC_H_
#define BATON_GATEWAY_HTTP_ANSWER_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/flow/generation.h"
#include "gateway/http/json_reader.h"
#include "gateway/http/request_codec.h"
#include "gateway/prompt/request_builder.h"

namespace baton::gateway {

enum class AnswerKind { kChat, kCompletion };

// What stays the same over one answer.
struct AnswerContext {
  AnswerKind kind = AnswerKind::kChat;
  AnswerOptions options;
  std::string id;
  int64_t created_unix_seconds = 0;
  uint64_t seed = 0;
  std::shared_ptr<const ServedModel> model;
};

// First 12 hexadecimal digits of the model file's digest.
std::string Fingerprint(const ServedModel& model);

// id, object, created, model, system_fingerprint, seed.
Json AnswerHead(const AnswerContext& context, bool chunk);

// Bytes that `tokens` stand for: how far they move the "text_offset" of a
// completion's log-probabilities.
size_t PieceBytes(const AnswerContext& context,
                  const std::vector<EmittedToken>& tokens);

// Chunks of a stream. `finish_reason` stands only in the last one.
Json RoleChunk(const AnswerContext& context);
Json TextChunk(const AnswerContext& context, const std::string& text,
               const std::vector<EmittedToken>& tokens, size_t text_offset);
Json FinishChunk(const AnswerContext& context, const GenerationReport& report);
Json UsageChunk(const AnswerContext& context, const GenerationReport& report);
Json ProgressChunk(const AnswerContext& context, uint32_t processed,
                   uint32_t total, absl::Duration since_start);

// The whole answer at once.
Json WholeAnswer(const AnswerContext& context, const std::string& text,
                 const std::vector<EmittedToken>& tokens,
                 const GenerationReport& report);

Json Usage(const GenerationReport& report);
// prompt_n counts computed tokens and cache_n restored ones. predicted_ms
// runs from the first token to the last, so that predicted_per_second is over
// predicted_n - 1 steps. Rates are absent where nothing was timed.
Json Timings(const GenerationReport& report);
// Timings of the tokens so far.
Json RunningTimings(uint32_t tokens, absl::Duration since_first);
// How the cluster ran it: workers, sources of the prompt, handoff, resumes.
Json ClusterReport(const GenerationReport& report);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_ANSWER_CODEC_H_
