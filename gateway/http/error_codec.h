// From a status to what an OpenAI client reads: the HTTP status, the error
// object {"error":{"message","type","param","code"}}, and retry headers.
#ifndef BATON_GATEWAY_HTTP_ERROR_CODEC_H_
#define BATON_GATEWAY_HTTP_ERROR_CODEC_H_

#include "absl/status/status.h"
#include "gateway/http/json_reader.h"
#include "services/http/message.h"

namespace baton::gateway {

// `status` must not be ok. The code is the status's reason, or the usual one
// of its canonical code; the message is cut at 1 KiB.
Json ErrorObject(const absl::Status& status);

// 429 and 503 carry retry-after (whole seconds, rounded up) and
// retry-after-ms; without a hint in the status, one second.
http::Response ErrorResponse(const absl::Status& status);

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_ERROR_CODEC_H_
