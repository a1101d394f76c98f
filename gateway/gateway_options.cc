#include "gateway/gateway_options.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton::gateway {

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]:");
}

absl::Status GatewayOptions::Check() const {
  for (const std::string* address : {&listen, &http_listen}) {
    if (!insecure && !IsLoopback(*address)) {
      return absl::FailedPreconditionError(
          absl::StrCat(*address,
                       " is not a loopback address; nothing there would be "
                       "encrypted or authenticated: add --insecure to allow "
                       "it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::gateway
