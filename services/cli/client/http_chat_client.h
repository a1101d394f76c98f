// Chat over the OpenAI-compatible HTTP API (/v1/chat/completions, streamed).
#ifndef BATON_SERVICES_CLI_CLIENT_HTTP_CHAT_CLIENT_H_
#define BATON_SERVICES_CLI_CLIENT_HTTP_CHAT_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/cli/client/answer.h"

namespace baton::cli {

// `url`: "host:port" or "http://host:port". `silence`: how long the server may
// send nothing.
std::unique_ptr<ChatSource> MakeHttpChatClient(const std::string& url,
                                               absl::Duration silence);

// Takes in one event of such a stream. Errors: kDataLoss (not a JSON object),
// kUnavailable (the event is the server's error).
absl::Status TakeChunk(const std::string& payload, const AnswerEvents& events,
                       Answer* answer);

// Splits a stream of server-sent events into its data payloads, whatever the
// pieces it comes in. Comments and other fields are dropped.
class SseReader {
 public:
  // The payloads of the events that `piece` completes.
  std::vector<std::string> Feed(absl::string_view piece);

 private:
  std::string line_;
  std::string payload_;
  bool has_payload_ = false;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLIENT_HTTP_CHAT_CLIENT_H_
