// A small blocking HTTP/1.1 client for loopback and test servers: one request
// a connection, plain text. Thread-safe: it has no state.
#ifndef BATON_SERVICES_CLI_CLIENT_HTTP_CLIENT_H_
#define BATON_SERVICES_CLI_CLIENT_HTTP_CLIENT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton::cli {

struct HttpResponse {
  int status = 0;
  std::string body;
};

// Called with each piece of a body of status 200; false ends the exchange.
using BodyPiece = std::function<bool(absl::string_view)>;

// `address` is "host:port" or "http://host:port". `silence` bounds each wait:
// to connect, to send and for the next byte. Errors: kInvalidArgument
// (address), kUnavailable (nothing listens there: this alone),
// kDeadlineExceeded (silence), kDataLoss (not HTTP, or cut short).
absl::StatusOr<HttpResponse> HttpGet(const std::string& address,
                                     const std::string& path,
                                     absl::Duration silence);
// The body of a status other than 200 is in the response. kCancelled as soon
// as `cancel_fd` is readable; -1 = never.
absl::StatusOr<HttpResponse> HttpPostJson(const std::string& address,
                                          const std::string& path,
                                          const std::string& json,
                                          absl::Duration silence,
                                          const BodyPiece& on_piece,
                                          int cancel_fd = -1);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLIENT_HTTP_CLIENT_H_
