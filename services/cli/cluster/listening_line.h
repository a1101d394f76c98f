// The one line that each Baton process prints when it listens:
//   baton-worker listening grpc=127.0.0.1:9301 http=127.0.0.1:9401
// Pure.
#ifndef BATON_SERVICES_CLI_CLUSTER_LISTENING_LINE_H_
#define BATON_SERVICES_CLI_CLUSTER_LISTENING_LINE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::cli {

struct Listening {
  std::string grpc;  // "host:port"
  std::string http;
};

// No value for any other line.
std::optional<Listening> ParseListeningLine(absl::string_view line);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_LISTENING_LINE_H_
