// Addresses of gateways as people type them. Pure.
#ifndef BATON_SERVICES_CLI_CLIENT_ADDRESS_H_
#define BATON_SERVICES_CLI_CLIENT_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::cli {

inline constexpr uint16_t kDefaultHttpPort = 8080;  // the gateway's
inline constexpr uint16_t kDefaultGrpcPort = 9300;

// "host:port" of "host", "host:port", "http://host[:port][/]" or "[::1]:port".
// Errors: kInvalidArgument for anything else (https, a path, a port beyond
// 65535).
absl::StatusOr<std::string> HostAndPort(absl::string_view text,
                                        uint16_t default_port);

// Gives both of a command's addresses their default port. `url` may be empty;
// `grpc` may be one of gRPC's own forms with a slash (unix:/path, dns:///name).
// Errors: kInvalidArgument, naming the option.
absl::Status CompleteAddresses(std::string* url, std::string* grpc);

// What is said when nothing listens at `address`: kUnavailable.
absl::Status NoGateway(absl::string_view address);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLIENT_ADDRESS_H_
