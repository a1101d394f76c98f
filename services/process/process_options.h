// The options that every Baton process has, under the same names: where it
// listens, how it logs, how long it drains. For main.cc alone.
#ifndef BATON_SERVICES_PROCESS_PROCESS_OPTIONS_H_
#define BATON_SERVICES_PROCESS_PROCESS_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/config/option_table.h"

namespace baton::process {

struct ProcessOptions {
  std::string grpc;  // "host:port"; port 0 picks one
  std::string http;
  bool insecure = false;
  absl::Duration drain_timeout = absl::Seconds(30);
  std::string log_level = "info";
  std::string log_format = "text";

  // Adds --grpc, --http, --insecure, --drain-timeout, --log-level and
  // --log-format. This must outlive the table.
  void Declare(config::OptionTable* table);
  // kInvalidArgument: an address that is not host:port, a listener beyond
  // loopback without --insecure (there is neither encryption nor
  // authentication), or a negative time. Part of the table's check.
  absl::Status Check() const;
  // `name` stands in each line.
  void SetUpLog(absl::string_view name) const;
};

// host:port, the host not empty and IPv6 in brackets, the port 0 to 65535.
bool IsAddress(absl::string_view text);

// 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(absl::string_view address);

// Prints the one line on standard output that supervisors read:
// "<program> listening grpc=HOST:PORT http=HOST:PORT".
void PrintListening(absl::string_view program, const std::string& grpc,
                    const std::string& http);

}  // namespace baton::process

#endif  // BATON_SERVICES_PROCESS_PROCESS_OPTIONS_H_
