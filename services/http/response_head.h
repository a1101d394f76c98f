// The bytes of an HTTP/1 answer before and around its body.
#ifndef BATON_SERVICES_HTTP_RESPONSE_HEAD_H_
#define BATON_SERVICES_HTTP_RESPONSE_HEAD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "services/http/message.h"

namespace baton::http {

// How the body's end is marked.
enum class Framing { kLength, kChunked, kUntilClose };

struct HeadOptions {
  bool http_1_0 = false;
  bool keep_alive = true;
  Framing framing = Framing::kLength;
};

// Status line and headers, with the empty line. Header names and values are
// the caller's and must hold no line breaks.
std::string FormatHead(const Response& response, const HeadOptions& options);

// Appends one piece of a body; nothing for an empty one, which would end it.
void AppendPiece(absl::string_view bytes, bool chunked, std::string* out);

}  // namespace baton::http

#endif  // BATON_SERVICES_HTTP_RESPONSE_HEAD_H_
