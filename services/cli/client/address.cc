#include "services/cli/client/address.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/base/status_macros.h"

namespace baton::cli {
namespace {

bool IsPort(absl::string_view text) {
  uint32_t port = 0;
  return !text.empty() && absl::ascii_isdigit(text[0]) &&
         absl::SimpleAtoi(text, &port) && port > 0 && port <= 65535;
}

}  // namespace

absl::StatusOr<std::string> HostAndPort(absl::string_view text,
                                        uint16_t default_port) {
  const auto wrong = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not host:port or http://host:port"));
  };
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, "http://");
  absl::ConsumeSuffix(&rest, "/");
  // After the brackets of an IPv6 address, whose colons are none of ours.
  const size_t bracket = rest.rfind(']');
  const size_t colon =
      rest.find(':', bracket == absl::string_view::npos ? 0 : bracket);
  const absl::string_view host = rest.substr(0, colon);
  if (host.empty() || absl::StrContains(rest, '/') ||
      (host[0] == '[') != (host.back() == ']')) {
    return wrong();
  }
  if (colon == absl::string_view::npos) {
    return absl::StrCat(host, ":", default_port);
  }
  if (!IsPort(rest.substr(colon + 1))) return wrong();
  return std::string(rest);
}

absl::Status CompleteAddresses(std::string* url, std::string* grpc) {
  const auto complete = [](absl::string_view option, uint16_t port,
                           std::string* address) -> absl::Status {
    const auto full = HostAndPort(*address, port);
    if (!full.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": ", full.status().message()));
    }
    *address = *full;
    return absl::OkStatus();
  };
  if (!url->empty()) {
    BATON_RETURN_IF_ERROR(complete("--url", kDefaultHttpPort, url));
  }
  if (absl::StrContains(*grpc, '/')) return absl::OkStatus();
  return complete("--grpc", kDefaultGrpcPort, grpc);
}

absl::Status NoGateway(absl::string_view address) {
  return absl::UnavailableError(
      absl::StrCat("no gateway at ", address, " (`baton up` starts one)"));
}

}  // namespace baton::cli
