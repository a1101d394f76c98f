#include "services/text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace baton::text {

StopMatcher::StopMatcher(std::vector<std::string> stops)
    : stops_(std::move(stops)) {
  stops_.erase(
      std::remove_if(stops_.begin(), stops_.end(),
                     [](const std::string& stop) { return stop.empty(); }),
      stops_.end());
}

StopMatcher::Result StopMatcher::Append(absl::string_view text) {
  held_.append(text.data(), text.size());
  size_t first_begin = 0;
  size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t begin = held_.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && begin < first_begin)) {
      first_begin = begin;
      first_end = end;
    }
  }
  Result result;
  result.stopped = first_end != std::string::npos;
  const size_t safe =
      result.stopped ? first_begin : held_.size() - HeldLength(held_);
  result.text = held_.substr(0, safe);
  held_.erase(0, result.stopped ? std::string::npos : safe);
  return result;
}

std::string StopMatcher::Flush() { return std::exchange(held_, std::string()); }

size_t StopMatcher::HeldLength(absl::string_view text) const {
  size_t held = 0;
  for (const std::string& stop : stops_) {
    // A whole stop string would have been found.
    for (size_t n = std::min(stop.size() - 1, text.size()); n > held; --n) {
      if (absl::EndsWith(text, absl::string_view(stop).substr(0, n))) held = n;
    }
  }
  return held;
}

}  // namespace baton::text
