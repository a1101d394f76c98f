// What a person sees while workers load their model: one bar that moves on a
// terminal, a plain line every few seconds elsewhere.
#ifndef BATON_SERVICES_CLI_LOAD_PROGRESS_H_
#define BATON_SERVICES_CLI_LOAD_PROGRESS_H_

#include <string>

#include "absl/time/time.h"

namespace baton::cli {

// Thread-compatible. Writes to standard error.
class LoadProgress {
 public:
  explicit LoadProgress(bool terminal) : terminal_(terminal) {}
  // `ratio`: 0..1 over all workers; `now`: monotonic.
  void Show(double ratio, absl::Duration now);
  // Removes the bar, so that other lines can follow.
  void Clear();

 private:
  const bool terminal_;
  bool shown_ = false;
  absl::Duration next_line_;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_LOAD_PROGRESS_H_
