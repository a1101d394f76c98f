#include "services/http/head_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace baton::http {
namespace {

using Head = boost::beast::http::request_header<>;
using Field = boost::beast::http::field;
using Verb = boost::beast::http::verb;

constexpr char kChunked[] = "chunked";

absl::string_view View(boost::beast::string_view text) {
  return absl::string_view(text.data(), text.size());
}

bool Has(const Head& head, absl::string_view name) {
  return head.find(boost::beast::string_view(name.data(), name.size())) !=
         head.end();
}

// The elements of a list header in lower case, over all lines of that name.
std::vector<std::string> Elements(const Head& head, Field name) {
  std::vector<std::string> elements;
  const auto lines = head.equal_range(name);
  for (auto line = lines.first; line != lines.second; ++line) {
    for (const absl::string_view element :
         absl::StrSplit(View(line->value()), ',')) {
      std::string text(absl::StripAsciiWhitespace(element));
      absl::AsciiStrToLower(&text);
      if (!text.empty()) elements.push_back(std::move(text));
    }
  }
  return elements;
}

Response Refuse(int status, absl::string_view code, absl::string_view message) {
  return JsonError(status, "invalid_request_error", code, message);
}

std::optional<Response> CheckFraming(const Head& head) {
  if (head.count(Field::host) > 1) {
    return Refuse(400, "invalid_value", "There is more than one Host");
  }
  if (head.count(Field::transfer_encoding) == 0) return std::nullopt;
  if (head.version() < 11) {
    return Refuse(400, "invalid_value", "HTTP/1.0 has no Transfer-Encoding");
  }
  if (head.count(Field::content_length) > 0) {
    return Refuse(400, "invalid_value",
                  "Transfer-Encoding and Content-Length exclude each other");
  }
  const std::vector<std::string> codings =
      Elements(head, Field::transfer_encoding);
  if (std::count(codings.begin(), codings.end(), kChunked) != 1 ||
      codings.back() != kChunked) {
    return Refuse(400, "invalid_value",
                  "Transfer-Encoding must end in one chunked");
  }
  if (codings.size() > 1) {
    return Refuse(501, "not_implemented",
                  "The only transfer coding is chunked");
  }
  return std::nullopt;
}

bool IsJson(const Head& head) {
  const absl::string_view type = View(head[Field::content_type]);
  return absl::EqualsIgnoreCase(
      absl::StripAsciiWhitespace(type.substr(0, type.find(';'))),
      "application/json");
}

std::optional<Response> CheckContent(const Head& head) {
  for (const std::string& coding : Elements(head, Field::content_encoding)) {
    if (coding == "identity") continue;
    Response response = Refuse(415, "unsupported_media_type",
                               "The body must not be compressed");
    response.headers.emplace_back("accept-encoding", "identity");
    return response;
  }
  const Verb verb = head.method();
  const bool is_read =
      verb == Verb::get || verb == Verb::head || verb == Verb::options;
  const bool is_browser =
      head.count(Field::origin) > 0 || Has(head, "sec-fetch-site");
  if (is_read || !is_browser || IsJson(head)) return std::nullopt;
  Response response =
      Refuse(415, "unsupported_media_type",
             "A request of a web page must be application/json");
  response.headers.emplace_back("accept", "application/json");
  return response;
}

}  // namespace

std::optional<Response> CheckHead(const Head& head) {
  if (auto refusal = CheckFraming(head)) return refusal;
  for (const std::string& expected : Elements(head, Field::expect)) {
    if (expected != "100-continue") {
      return Refuse(417, "expectation_failed",
                    "The only expectation served is 100-continue");
    }
  }
  return CheckContent(head);
}

bool ExpectsContinue(const Head& head) {
  // HTTP/1.0 has no interim answers.
  return head.version() >= 11 && !Elements(head, Field::expect).empty();
}

}  // namespace baton::http
