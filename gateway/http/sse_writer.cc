#include "gateway/http/sse_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::gateway {

void SseWriter::Event(const Json& data) {
  Write(absl::StrCat("data: ", DumpJson(data), "\n\n"));
}

void SseWriter::Ping() { Write(": ping\n\n"); }

void SseWriter::Done() {
  Write("data: [DONE]\n\n");
  writer_->Finish();
}

void SseWriter::Refuse(http::Response response) {
  writer_->Send(std::move(response));
}

void SseWriter::Write(absl::string_view bytes) {
  if (begun_) {
    // A slow or gone client is the listener's to notice: it closes the
    // connection, and that cancels the generation.
    (void)writer_->Write(bytes);
    return;
  }
  begun_ = true;
  http::Response head;
  head.content_type = "text/event-stream";
  head.headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
  head.body = std::string(bytes);
  writer_->Begin(std::move(head));
}

}  // namespace baton::gateway
