// Where a generation's events become an HTTP answer, whole or streamed.
#ifndef BATON_GATEWAY_HTTP_ANSWER_SINK_H_
#define BATON_GATEWAY_HTTP_ANSWER_SINK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gateway/flow/generation.h"
#include "gateway/http/answer_codec.h"
#include "gateway/http/sse_writer.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"
#include "services/http/message.h"

namespace baton::gateway {

// Gathers the text and sends it once. Thread-compatible, as sinks are called.
class WholeAnswerSink final : public GenerationSink {
 public:
  WholeAnswerSink(AnswerContext context,
                  std::shared_ptr<http::ResponseWriter> writer)
      : context_(std::move(context)), writer_(std::move(writer)) {}

  void OnProgress(uint32_t processed, uint32_t total) override {}
  void OnText(const std::string& text,
              const std::vector<EmittedToken>& tokens) override;
  void OnEnd(const GenerationReport& report) override;
  void OnError(const absl::Status& status) override;

 private:
  const AnswerContext context_;
  const std::shared_ptr<http::ResponseWriter> writer_;
  std::string text_;
  std::vector<EmittedToken> tokens_;  // kept only for log-probabilities
};

// Sends each piece as an event. Thread-safe: pings come from the listener.
class StreamedAnswerSink final : public GenerationSink {
 public:
  StreamedAnswerSink(AnswerContext context,
                     std::shared_ptr<http::ResponseWriter> writer,
                     std::shared_ptr<const Clock> clock)
      : context_(std::move(context)),
        clock_(std::move(clock)),
        start_(clock_->Monotonic()),
        sse_(std::move(writer)) {}

  void OnProgress(uint32_t processed, uint32_t total) override;
  void OnText(const std::string& text,
              const std::vector<EmittedToken>& tokens) override;
  void OnEnd(const GenerationReport& report) override;
  void OnError(const absl::Status& status) override;
  // To be called while nothing else is sent; nothing after the end.
  void Ping();

 private:
  void GiveRoleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AnswerContext context_;
  const std::shared_ptr<const Clock> clock_;
  const absl::Duration start_;  // monotonic
  // Held while writing, to keep events in order; the writer never calls back.
  Mutex mutex_;
  SseWriter sse_ ABSL_GUARDED_BY(mutex_);
  bool role_given_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t text_offset_ ABSL_GUARDED_BY(mutex_) = 0;      // of the next logprob
  absl::Duration first_token_ ABSL_GUARDED_BY(mutex_);  // monotonic
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_ANSWER_SINK_H_
