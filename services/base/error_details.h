// What an error says beyond its code and message, carried as payloads of
// absl::Status: the API's error code ("context_length_exceeded"), the request
// field at fault, and when to try again. Edges turn them into
// google.rpc.ErrorInfo, HTTP headers and OpenAI error objects.
#ifndef BATON_SERVICES_BASE_ERROR_DETAILS_H_
#define BATON_SERVICES_BASE_ERROR_DETAILS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton {

// Each returns `status` with the detail added; an ok status stays as it is.
absl::Status WithReason(absl::Status status, absl::string_view reason);
absl::Status WithField(absl::Status status, absl::string_view field);
absl::Status WithRetryAfter(absl::Status status, absl::Duration delay);

// Empty if not set.
std::string ErrorReason(const absl::Status& status);
std::string ErrorField(const absl::Status& status);
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

}  // namespace baton

#endif  // BATON_SERVICES_BASE_ERROR_DETAILS_H_
