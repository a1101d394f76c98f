#include "services/http/response_head.h"

#include <boost/beast/http/status.hpp>

#include "absl/strings/str_cat.h"

namespace baton::http {

std::string FormatHead(const Response& response, const HeadOptions& options) {
  const boost::beast::string_view reason = boost::beast::http::obsolete_reason(
      static_cast<boost::beast::http::status>(response.status));
  std::string head = absl::StrCat(
      options.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ", response.status, " ",
      absl::string_view(reason.data(), reason.size()),
      "\r\ncontent-type: ", response.content_type, "\r\n");
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  switch (options.framing) {
    case Framing::kLength:
      absl::StrAppend(&head, "content-length: ", response.body.size(), "\r\n");
      break;
    case Framing::kChunked:
      absl::StrAppend(&head, "transfer-encoding: chunked\r\n");
      break;
    case Framing::kUntilClose:
      break;
  }
  absl::StrAppend(&head,
                  "connection: ", options.keep_alive ? "keep-alive" : "close",
                  "\r\n\r\n");
  return head;
}

void AppendPiece(absl::string_view bytes, bool chunked, std::string* out) {
  if (bytes.empty()) return;
  if (chunked) {
    absl::StrAppend(out, absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
  } else {
    absl::StrAppend(out, bytes);
  }
}

}  // namespace baton::http
