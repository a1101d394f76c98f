#include "gateway/http/answer_codec.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton::gateway {
namespace {

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAborted:
      return "abort";
  }
  return "abort";
}

std::string Piece(const AnswerContext& context, TokenId token) {
  return context.model->tokenizer->TokenBytes(token, /*render_special=*/true);
}

Json ByteArray(const std::string& bytes) {
  Json array = Json::array();
  for (const char byte : bytes) array.push_back(static_cast<uint8_t>(byte));
  return array;
}

Json ChatLogprob(const AnswerContext& context, TokenId token, float logprob) {
  const std::string piece = Piece(context, token);
  return Json{
      {"token", piece}, {"logprob", logprob}, {"bytes", ByteArray(piece)}};
}

Json ChatLogprobs(const AnswerContext& context,
                  const std::vector<EmittedToken>& tokens) {
  Json content = Json::array();
  for (const EmittedToken& token : tokens) {
    Json entry =
        ChatLogprob(context, token.token, token.logprob.value_or(0.0f));
    Json& top = entry["top_logprobs"] = Json::array();
    for (const auto& [id, logprob] : token.top_logprobs) {
      top.push_back(ChatLogprob(context, id, logprob));
    }
    content.push_back(std::move(entry));
  }
  return Json{{"content", std::move(content)}, {"refusal", nullptr}};
}

Json CompletionLogprobs(const AnswerContext& context,
                        const std::vector<EmittedToken>& tokens,
                        size_t text_offset) {
  Json pieces = Json::array(), logprobs = Json::array(), top = Json::array(),
       offsets = Json::array();
  for (const EmittedToken& token : tokens) {
    const std::string piece = Piece(context, token.token);
    pieces.push_back(piece);
    logprobs.push_back(token.logprob.value_or(0.0f));
    Json alternatives = Json::object();
    for (const auto& [id, logprob] : token.top_logprobs) {
      alternatives[Piece(context, id)] = logprob;
    }
    top.push_back(std::move(alternatives));
    offsets.push_back(text_offset);
    text_offset += piece.size();
  }
  return Json{{"tokens", std::move(pieces)},
              {"token_logprobs", std::move(logprobs)},
              {"top_logprobs", std::move(top)},
              {"text_offset", std::move(offsets)}};
}

Json Logprobs(const AnswerContext& context,
              const std::vector<EmittedToken>& tokens, size_t text_offset) {
  if (!context.options.logprobs || tokens.empty()) return nullptr;
  return context.kind == AnswerKind::kChat
             ? ChatLogprobs(context, tokens)
             : CompletionLogprobs(context, tokens, text_offset);
}

Json ChunkWith(const AnswerContext& context, Json choices) {
  Json chunk = AnswerHead(context, /*chunk=*/true);
  chunk["choices"] = std::move(choices);
  if (context.options.include_usage) chunk["usage"] = nullptr;
  return chunk;
}

Json Choice(const AnswerContext& context, Json delta, Json logprobs,
            Json finish_reason) {
  Json choice{{"index", 0},
              {"logprobs", std::move(logprobs)},
              {"finish_reason", std::move(finish_reason)}};
  if (context.kind == AnswerKind::kChat) {
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = delta.value("content", "");
  }
  return Json::array({std::move(choice)});
}

}  // namespace

std::string Fingerprint(const ServedModel& model) {
  return absl::BytesToHexString(model.digest).substr(0, 12);
}

Json AnswerHead(const AnswerContext& context, bool chunk) {
  const char* object = "text_completion";
  if (context.kind == AnswerKind::kChat) {
    object = chunk ? "chat.completion.chunk" : "chat.completion";
  }
  return Json{{"id", context.id},
              {"object", object},
              {"created", context.created_unix_seconds},
              {"model", context.model->name},
              {"system_fingerprint", Fingerprint(*context.model)},
              {"seed", context.seed}};
}

size_t PieceBytes(const AnswerContext& context,
                  const std::vector<EmittedToken>& tokens) {
  size_t bytes = 0;
  for (const EmittedToken& token : tokens) {
    bytes += Piece(context, token.token).size();
  }
  return bytes;
}

Json RoleChunk(const AnswerContext& context) {
  return ChunkWith(context,
                   Choice(context, Json{{"role", "assistant"}, {"content", ""}},
                          nullptr, nullptr));
}

Json TextChunk(const AnswerContext& context, const std::string& text,
               const std::vector<EmittedToken>& tokens, size_t text_offset) {
  return ChunkWith(context,
                   Choice(context, Json{{"content", text}},
                          Logprobs(context, tokens, text_offset), nullptr));
}

Json FinishChunk(const AnswerContext& context, const GenerationReport& report) {
  Json chunk =
      ChunkWith(context, Choice(context, Json::object(), nullptr,
                                FinishReasonName(report.finish_reason)));
  chunk["timings"] = Timings(report);
  chunk["baton"] = ClusterReport(report);
  return chunk;
}

Json UsageChunk(const AnswerContext& context, const GenerationReport& report) {
  Json chunk = ChunkWith(context, Json::array());
  chunk["usage"] = Usage(report);
  return chunk;
}

Json ProgressChunk(const AnswerContext& context, uint32_t processed,
                   uint32_t total, absl::Duration since_start) {
  Json chunk =
      ChunkWith(context, Choice(context, Json::object(), nullptr, nullptr));
  chunk["prompt_progress"] =
      Json{{"total", total},
           {"processed", processed},
           {"time_ms", absl::ToInt64Milliseconds(since_start)}};
  return chunk;
}

Json WholeAnswer(const AnswerContext& context, const std::string& text,
                 const std::vector<EmittedToken>& tokens,
                 const GenerationReport& report) {
  Json choice{{"index", 0},
              {"logprobs", Logprobs(context, tokens, 0)},
              {"finish_reason", FinishReasonName(report.finish_reason)}};
  if (context.kind == AnswerKind::kChat) {
    choice["message"] =
        Json{{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["text"] = text;
  }
  Json answer = AnswerHead(context, /*chunk=*/false);
  answer["choices"] = Json::array({std::move(choice)});
  answer["usage"] = Usage(report);
  answer["timings"] = Timings(report);
  answer["baton"] = ClusterReport(report);
  return answer;
}

Json Usage(const GenerationReport& report) {
  return Json{{"prompt_tokens", report.prompt_tokens},
              {"completion_tokens", report.completion_tokens},
              {"total_tokens",
               uint64_t{report.prompt_tokens} + report.completion_tokens},
              {"prompt_tokens_details",
               Json{{"cached_tokens", uint64_t{report.sources.local_cache} +
                                          report.sources.kv_store}}}};
}

Json RunningTimings(uint32_t tokens, absl::Duration since_first) {
  Json timings{{"predicted_n", tokens},
               {"predicted_ms", absl::ToDoubleMilliseconds(since_first)}};
  if (tokens > 1 && since_first > absl::ZeroDuration()) {
    const double steps = tokens - 1;
    timings["predicted_per_second"] =
        steps / absl::ToDoubleSeconds(since_first);
    timings["predicted_per_token_ms"] =
        absl::ToDoubleMilliseconds(since_first) / steps;
  }
  return timings;
}

Json Timings(const GenerationReport& report) {
  Json timings = RunningTimings(report.completion_tokens, report.decode);
  timings["cache_n"] =
      uint64_t{report.sources.local_cache} + report.sources.kv_store;
  timings["prompt_n"] = report.sources.computed;
  timings["prompt_ms"] = absl::ToDoubleMilliseconds(report.prefill);
  if (report.sources.computed > 0 && report.prefill > absl::ZeroDuration()) {
    timings["prompt_per_second"] =
        report.sources.computed / absl::ToDoubleSeconds(report.prefill);
    timings["prompt_per_token_ms"] =
        absl::ToDoubleMilliseconds(report.prefill) / report.sources.computed;
  }
  if (report.drafted_tokens > 0) {
    timings["draft_n"] = report.drafted_tokens;
    timings["draft_n_accepted"] = report.accepted_tokens;
  }
  timings["queue_ms"] = absl::ToDoubleMilliseconds(report.queue);
  timings["time_to_first_token_ms"] =
      absl::ToDoubleMilliseconds(report.time_to_first_token);
  return timings;
}

Json ClusterReport(const GenerationReport& report) {
  return Json{{"prefill_worker", report.prefill_worker},
              {"decode_worker", report.decode_worker},
              {"sources", Json{{"computed", report.sources.computed},
                               {"local_cache", report.sources.local_cache},
                               {"kv_store", report.sources.kv_store}}},
              {"resumes", report.resumes},
              {"handoff_ms", absl::ToDoubleMilliseconds(report.handoff)},
              {"handoff_bytes", report.handoff_bytes},
              {"route", report.route_reason},
              {"corrupt_blocks", report.corrupt_blocks}};
}

}  // namespace baton::gateway
