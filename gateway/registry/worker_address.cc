#include "gateway/registry/worker_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/base/error_details.h"

namespace baton::gateway {
namespace {

constexpr size_t kMaxIdBytes = 128;
constexpr size_t kMaxHostBytes = 253;  // RFC 1035
constexpr absl::string_view kDns = "dns:///";

struct HostPort {
  std::string host;  // lower case, without brackets
  uint32_t port = 0;
};

bool IsName(absl::string_view host) {
  return !host.empty() && host.size() <= kMaxHostBytes &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

bool IsV6(const std::string& host) {
  in6_addr parsed;
  return inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

std::optional<HostPort> Split(absl::string_view address) {
  absl::ConsumePrefix(&address, kDns);
  if (address.size() > kMaxHostBytes + sizeof("[]:65535")) return std::nullopt;
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return std::nullopt;
  absl::string_view host = address.substr(0, colon);
  const absl::string_view port = address.substr(colon + 1);
  HostPort parts;
  // SimpleAtoi would take signs and spaces.
  if (!std::all_of(port.begin(), port.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(port, &parts.port) || parts.port == 0 ||
      parts.port > 65535) {
    return std::nullopt;
  }
  const bool bracketed =
      absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  parts.host = absl::AsciiStrToLower(host);
  if (bracketed ? !IsV6(parts.host) : !IsName(parts.host)) return std::nullopt;
  return parts;
}

bool IsWildcard(absl::string_view host) {
  return host == "0.0.0.0" || host == "::";
}

// The usual names; a peer that wants to be refused can be.
bool IsThisMachine(absl::string_view host) {
  return IsWildcard(host) || host == "127.0.0.1" || host == "::1" ||
         host == "localhost";
}

absl::Status Malformed(absl::string_view field, absl::string_view form) {
  return WithField(WithReason(absl::InvalidArgumentError(
                                  absl::StrCat(field, " must be ", form)),
                              "invalid_value"),
                   field);
}

}  // namespace

absl::Status CheckWorkerId(absl::string_view id) {
  const bool good = !id.empty() && id.size() <= kMaxIdBytes &&
                    std::all_of(id.begin(), id.end(), absl::ascii_isgraph);
  return good ? absl::OkStatus()
              : Malformed("worker_id",
                          absl::StrCat("1 to ", kMaxIdBytes,
                                       " printable ASCII characters"));
}

absl::Status CheckWorkerAddress(absl::string_view address) {
  return Split(address).has_value()
             ? absl::OkStatus()
             : Malformed("address", "host:port, [v6]:port or dns:///host:port");
}

bool IsOwnAddress(absl::string_view address, absl::string_view own) {
  const auto theirs = Split(address);
  const auto ours = Split(own);
  if (!theirs.has_value() || !ours.has_value()) return false;
  if (theirs->port != ours->port) return false;
  return theirs->host == ours->host ||
         (IsThisMachine(theirs->host) && IsThisMachine(ours->host));
}

}  // namespace baton::gateway
