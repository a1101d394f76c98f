// One HTTP exchange as handlers see it: plain values and the writer of the
// answer. No Boost here, so that handlers and their tests do without it.
#ifndef BATON_SERVICES_HTTP_MESSAGE_H_
#define BATON_SERVICES_HTTP_MESSAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton::http {

struct Request {
  std::string method;
  std::string path;   // without the query; an absolute-form target is reduced
  std::string query;  // without "?"
  std::vector<std::pair<std::string, std::string>> headers;  // lower-case names
  std::string body;

  // The first header of that (lower-case) name; empty if there is none.
  absl::string_view Header(absl::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  // Beside content-type, content-length and connection.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// An error in the shape that OpenAI clients read. `message`, `type` and `code`
// are constants of the caller: they are not escaped.
Response JsonError(int status, absl::string_view type, absl::string_view code,
                   absl::string_view message);

// A client's x-request-id, if it can stand in a header and a log line; else
// empty.
std::string UsableRequestId(absl::string_view id);

// Answers one request: Send once, or Begin, Write as often as needed, Finish.
// Dropping the writer before either answers 500, or cuts a begun stream off.
// Thread-safe; calls never block. After the peer is gone all calls do nothing.
class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual void Send(Response response) = 0;

  // Starts a stream; `head.body` holds its first bytes.
  virtual void Begin(Response head) = 0;
  // False if the connection is gone. A slow reader's bytes wait here, up to
  // Limits::max_stream_buffer_bytes; one that reads nothing is disconnected.
  virtual bool Write(absl::string_view bytes) = 0;
  virtual void Finish() = 0;

  // `callback` runs once, on a thread of the listener, if the connection
  // closes before Send or Finish; at once, in this call, if it has done so
  // already. It must not block. Dropped at Send and Finish.
  virtual void OnClosed(std::function<void()> callback) = 0;
  // `callback` runs each time that nothing was written for `period`, and when
  // the client has ended its sending side, until Send or Finish. It must not
  // block; what it writes shows whether that client still reads.
  virtual void OnSilent(absl::Duration period,
                        std::function<void()> callback) = 0;
};

// What a listener serves. Thread-safe; called on the listener's handler
// threads, where blocking work delays only other requests, never streams.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void OnRequest(Request request,
                         std::shared_ptr<ResponseWriter> writer) = 0;
  // A request that never reached OnRequest was answered with `status`
  // (malformed, too large, too slow). Must not block.
  virtual void OnRejected(int status) = 0;
};

}  // namespace baton::http

#endif  // BATON_SERVICES_HTTP_MESSAGE_H_
