#include "gateway/http/error_codec.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/base/error_details.h"

namespace baton::gateway {
namespace {

constexpr size_t kMaxMessageBytes = 1024;

struct ErrorKind {
  int http;
  const char* type;
  const char* code;  // if the status gives no reason; nullptr = null
};

ErrorKind KindOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return {400, "invalid_request_error", "invalid_value"};
    case absl::StatusCode::kUnauthenticated:
      return {401, "authentication_error", "invalid_api_key"};
    case absl::StatusCode::kPermissionDenied:
      return {403, "permission_error", nullptr};
    case absl::StatusCode::kNotFound:
      return {404, "invalid_request_error", "model_not_found"};
    case absl::StatusCode::kResourceExhausted:
      if (ErrorReason(status) == "request_too_large") {
        return {413, "invalid_request_error", "request_too_large"};
      }
      return {429, "rate_limit_error", "queue_full"};
    case absl::StatusCode::kUnavailable:
      return {503, "unavailable_error", "no_worker"};
    case absl::StatusCode::kDeadlineExceeded:
      return {504, "timeout_error", nullptr};
    case absl::StatusCode::kAborted:
      return {500, "server_error", "worker_lost"};
    case absl::StatusCode::kDataLoss:
      return {500, "server_error", "kv_corrupt"};
    case absl::StatusCode::kUnimplemented:
      return {501, "server_error", "not_implemented"};
    default:
      return {500, "server_error", nullptr};
  }
}

}  // namespace

Json ErrorObject(const absl::Status& status) {
  const ErrorKind kind = KindOf(status);
  const absl::string_view message = status.message();
  const std::string field = ErrorField(status);
  const std::string reason = ErrorReason(status);
  Json error;
  error["message"] = std::string(
      message.substr(0, std::min(message.size(), kMaxMessageBytes)));
  error["type"] = kind.type;
  error["param"] = field.empty() ? Json(nullptr) : Json(field);
  if (!reason.empty()) {
    error["code"] = reason;
  } else {
    error["code"] = kind.code == nullptr ? Json(nullptr) : Json(kind.code);
  }
  return Json{{"error", std::move(error)}};
}

http::Response ErrorResponse(const absl::Status& status) {
  http::Response response;
  response.status = KindOf(status).http;
  response.body = DumpJson(ErrorObject(status));
  if (response.status == 429 || response.status == 503) {
    const absl::Duration delay = std::max(
        RetryAfter(status).value_or(absl::Seconds(1)), absl::ZeroDuration());
    const int64_t milliseconds = absl::ToInt64Milliseconds(delay);
    response.headers.emplace_back("retry-after",
                                  absl::StrCat((milliseconds + 999) / 1000));
    response.headers.emplace_back("retry-after-ms", absl::StrCat(milliseconds));
  }
  return response;
}

}  // namespace baton::gateway
