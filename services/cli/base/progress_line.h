// What a person sees while something takes long: on a terminal one line that
// is written over, elsewhere a plain line every few seconds.
#ifndef BATON_SERVICES_CLI_BASE_PROGRESS_LINE_H_
#define BATON_SERVICES_CLI_BASE_PROGRESS_LINE_H_

#include <cstdio>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace baton::cli {

// Thread-compatible.
class ProgressLine {
 public:
  // `out` must outlive it.
  ProgressLine(FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  bool terminal() const { return terminal_; }
  // `text`: without a newline; `now`: monotonic.
  void Show(const std::string& text, absl::Duration now);
  // Takes the line away, so that other text can follow.
  void Clear();

 private:
  FILE* const out_;
  const bool terminal_;
  bool shown_ = false;
  std::optional<absl::Duration> next_line_;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BASE_PROGRESS_LINE_H_
