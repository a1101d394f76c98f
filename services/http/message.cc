#include "services/http/message.h"

#include "absl/strings/str_cat.h"

namespace baton::http {

absl::string_view Request::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return "";
}

Response JsonError(int status, absl::string_view type, absl::string_view code,
                   absl::string_view message) {
  Response response;
  response.status = status;
  response.body =
      absl::StrCat("{\"error\":{\"message\":\"", message, "\",\"type\":\"",
                   type, "\",\"param\":null,\"code\":\"", code, "\"}}");
  return response;
}

}  // namespace baton::http
