// Server-sent events over one response. The head is sent with the first event
// or comment, so that a failure before either still gets its HTTP status.
#ifndef BATON_GATEWAY_HTTP_SSE_WRITER_H_
#define BATON_GATEWAY_HTTP_SSE_WRITER_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "gateway/http/json_reader.h"
#include "services/http/message.h"

namespace baton::gateway {

// Thread-compatible: the owner serialises calls.
class SseWriter {
 public:
  explicit SseWriter(std::shared_ptr<http::ResponseWriter> writer)
      : writer_(std::move(writer)) {}

  bool begun() const { return begun_; }
  void Event(const Json& data);
  // A comment that clients skip; it keeps proxies and watchdogs content.
  void Ping();
  // The last event, "[DONE]", and the end of the response.
  void Done();
  // Instead of a stream that has not begun.
  void Refuse(http::Response response);

 private:
  void Write(absl::string_view bytes);

  const std::shared_ptr<http::ResponseWriter> writer_;
  bool begun_ = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_SSE_WRITER_H_
