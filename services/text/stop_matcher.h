// Finds stop strings in text that arrives in pieces, and holds back what might
// become one. Value; thread-compatible.
#ifndef BATON_SERVICES_TEXT_STOP_MATCHER_H_
#define BATON_SERVICES_TEXT_STOP_MATCHER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::text {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  struct Result {
    std::string text;      // safe to send
    bool stopped = false;  // a stop string was found; it is not in `text`
  };
  // Never called again after a result with `stopped`.
  Result Append(absl::string_view text);
  // What is still held back, at the end of the answer.
  std::string Flush();

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_STOP_MATCHER_H_
