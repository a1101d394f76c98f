// Finds stop strings in text that arrives in pieces, and holds back what might
// become one. Value; thread-compatible.
#ifndef BATON_SERVICES_TEXT_STOP_MATCHER_H_
#define BATON_SERVICES_TEXT_STOP_MATCHER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::text {

class StopMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Result {
    std::string text;      // safe to send
    bool stopped = false;  // a stop string was found; it is not in `text`
  };
  // Where several stop strings match, the one that is complete first counts,
  // and of those the longest: so the result does not depend on how the text
  // was cut. Never called again after a result with `stopped`.
  Result Append(absl::string_view text);
  // What is still held back, at the end of the answer.
  std::string Flush();

 private:
  // Bytes at the end of `text` that may be the start of a stop string.
  size_t HeldLength(absl::string_view text) const;

  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_STOP_MATCHER_H_
