#include "services/cli/cluster/listening_line.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton::cli {
namespace {

bool IsAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 &&
         port <= 65535;
}

}  // namespace

std::optional<Listening> ParseListeningLine(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, ' ', absl::SkipWhitespace());
  if (words.size() < 3 || !absl::StartsWith(words[0], "baton-") ||
      words[1] != "listening") {
    return std::nullopt;
  }
  Listening listening;
  for (absl::string_view word : words) {
    if (absl::ConsumePrefix(&word, "grpc=") && IsAddress(word)) {
      listening.grpc = std::string(word);
    } else if (absl::ConsumePrefix(&word, "http=") && IsAddress(word)) {
      listening.http = std::string(word);
    }
  }
  if (listening.grpc.empty()) return std::nullopt;
  return listening;
}

}  // namespace baton::cli
