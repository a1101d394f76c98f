#include "services/process/process_options.h"

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/base/log.h"

namespace baton::process {

void ProcessOptions::Declare(config::OptionTable* table) {
  table->AddString("grpc", &grpc, "gRPC address, host:port; port 0 picks one");
  table->AddString("http", &http,
                   "HTTP address, host:port: /metrics, /livez, /readyz");
  table->AddBool("insecure", &insecure,
                 "allow listening beyond loopback; nothing is encrypted and "
                 "nobody is asked who they are");
  table->AddDuration("drain-timeout", &drain_timeout,
                     "how long SIGTERM lets work finish");
  table->AddChoice("log-level", &log_level,
                   {"debug", "info", "warning", "error"},
                   "least severe line that is logged");
  table->AddChoice("log-format", &log_format, {"text", "json"},
                   "form of log lines");
}

absl::Status ProcessOptions::Check() const {
  for (const std::string* address : {&grpc, &http}) {
    if (!IsAddress(*address)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", *address, "\" is not host:port with a port from 0 to 65535"));
    }
    if (!insecure && !IsLoopback(*address)) {
      return absl::InvalidArgumentError(
          absl::StrCat(*address,
                       " is not a loopback address; nothing there would be "
                       "encrypted or authenticated: --insecure allows it"));
    }
  }
  if (drain_timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--drain-timeout must not be negative");
  }
  return absl::OkStatus();
}

void ProcessOptions::SetUpLog(absl::string_view name) const {
  LogOptions log;
  log.process = std::string(name);
  log.format = log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  if (log_level == "debug") log.level = LogLevel::kDebug;
  if (log_level == "warning") log.level = LogLevel::kWarning;
  if (log_level == "error") log.level = LogLevel::kError;
  ConfigureLog(log);
}

bool IsAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  const absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  uint32_t number = 0;
  const bool bare_v6 = absl::StrContains(host, ':') && host[0] != '[';
  return !bare_v6 && !port.empty() && absl::ascii_isdigit(port[0]) &&
         absl::SimpleAtoi(port, &number) && number <= 65535;
}

bool IsLoopback(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" ||
         absl::StartsWith(host, "127.");
}

void PrintListening(absl::string_view program, const std::string& grpc,
                    const std::string& http) {
  std::printf("%s listening grpc=%s http=%s\n", std::string(program).c_str(),
              grpc.c_str(), http.c_str());
  std::fflush(stdout);
}

}  // namespace baton::process
