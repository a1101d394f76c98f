#include "gateway/http/answer_sink.h"

#include <utility>

#include "gateway/http/error_codec.h"

namespace baton::gateway {

void WholeAnswerSink::OnText(const std::string& text,
                             const std::vector<EmittedToken>& tokens) {
  text_ += text;
  if (!context_.options.logprobs) return;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void WholeAnswerSink::OnEnd(const GenerationReport& report) {
  http::Response response;
  response.body = DumpJson(WholeAnswer(context_, text_, tokens_, report));
  writer_->Send(std::move(response));
}

void WholeAnswerSink::OnError(const absl::Status& status) {
  writer_->Send(ErrorResponse(status));
}

void StreamedAnswerSink::OnProgress(uint32_t processed, uint32_t total) {
  if (!context_.options.return_progress) return;
  MutexLock lock(&mutex_);
  GiveRoleLocked();
  sse_.Event(
      ProgressChunk(context_, processed, total, clock_->Monotonic() - start_));
}

void StreamedAnswerSink::OnText(const std::string& text,
                                const std::vector<EmittedToken>& tokens) {
  MutexLock lock(&mutex_);
  GiveRoleLocked();
  const absl::Duration now = clock_->Monotonic();
  if (tokens_ == 0) first_token_ = now;
  tokens_ += tokens.size();
  const bool wants_each =
      context_.options.logprobs || context_.options.timings_per_token;
  if (text.empty() && (tokens.empty() || !wants_each)) return;
  Json chunk = TextChunk(context_, text, tokens, text_offset_);
  if (context_.options.timings_per_token) {
    chunk["timings"] = RunningTimings(tokens_, now - first_token_);
  }
  if (context_.options.logprobs) text_offset_ += PieceBytes(context_, tokens);
  sse_.Event(chunk);
}

void StreamedAnswerSink::OnEnd(const GenerationReport& report) {
  MutexLock lock(&mutex_);
  GiveRoleLocked();
  ended_ = true;
  sse_.Event(FinishChunk(context_, report));
  if (context_.options.include_usage) {
    sse_.Event(UsageChunk(context_, report));
  }
  sse_.Done();
}

void StreamedAnswerSink::OnError(const absl::Status& status) {
  MutexLock lock(&mutex_);
  ended_ = true;
  if (!sse_.begun()) return sse_.Refuse(ErrorResponse(status));
  sse_.Event(ErrorObject(status));
  sse_.Done();
}

void StreamedAnswerSink::Ping() {
  MutexLock lock(&mutex_);
  if (!ended_) sse_.Ping();
}

void StreamedAnswerSink::GiveRoleLocked() {
  if (role_given_) return;
  role_given_ = true;
  if (context_.kind == AnswerKind::kChat) sse_.Event(RoleChunk(context_));
}

}  // namespace baton::gateway
