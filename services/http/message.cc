#include "services/http/message.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace baton::http {
namespace {

constexpr size_t kMaxRequestIdBytes = 128;

}  // namespace

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

std::string UsableRequestId(absl::string_view id) {
  const bool usable = id.size() <= kMaxRequestIdBytes &&
                      std::all_of(id.begin(), id.end(), [](char c) {
                        return absl::ascii_isgraph(c);
                      });
  return usable ? std::string(id) : std::string();
}

}  // namespace baton::http
