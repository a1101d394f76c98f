#include "services/base/error_details.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr absl::string_view kReason = "baton/reason";
constexpr absl::string_view kField = "baton/field";
constexpr absl::string_view kRetryAfterMs = "baton/retry-after-ms";

std::string Payload(const absl::Status& status, absl::string_view url) {
  auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  status.SetPayload(kReason, absl::Cord(reason));
  return status;
}

absl::Status WithField(absl::Status status, absl::string_view field) {
  status.SetPayload(kField, absl::Cord(field));
  return status;
}

absl::Status WithRetryAfter(absl::Status status, absl::Duration delay) {
  // By way of a view: the constructor from a string is a template of the
  // library, which Clang names otherwise than the GCC that built it.
  const std::string text = absl::StrCat(absl::ToInt64Milliseconds(delay));
  status.SetPayload(kRetryAfterMs, absl::Cord(absl::string_view(text)));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  return Payload(status, kReason);
}

std::string ErrorField(const absl::Status& status) {
  return Payload(status, kField);
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  int64_t milliseconds = 0;
  if (!absl::SimpleAtoi(Payload(status, kRetryAfterMs), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace baton
