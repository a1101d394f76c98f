#include "gateway/http/route_table.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton::gateway {
namespace {

constexpr absl::string_view kArgument = "/{id}";

std::string PercentDecode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::ascii_isxdigit(text[i + 1]) &&
        absl::ascii_isxdigit(text[i + 2])) {
      decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

bool PathMatches(absl::string_view pattern, absl::string_view path,
                 std::string* argument) {
  if (!absl::ConsumeSuffix(&pattern, kArgument)) return pattern == path;
  if (!absl::ConsumePrefix(&path, pattern)) return false;
  if (!absl::ConsumePrefix(&path, "/") || path.empty()) return false;
  *argument = PercentDecode(path);
  return true;
}

}  // namespace

void RouteTable::Add(std::string method, std::string path, Function function) {
  routes_.push_back(
      Route{std::move(method), std::move(path), std::move(function)});
}

RouteTable::Match RouteTable::Find(absl::string_view method,
                                   absl::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    std::string argument;
    if (!PathMatches(route.path, path, &argument)) continue;
    const bool is_get = route.method == "GET";
    if (route.method == method || (is_get && method == "HEAD")) {
      match.route = &route;
      match.argument = std::move(argument);
      return match;
    }
    absl::StrAppend(&match.allowed, match.allowed.empty() ? "" : ", ",
                    route.method, is_get ? ", HEAD" : "");
  }
  return match;
}

}  // namespace baton::gateway
