#include "services/cli/client/metrics_text.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton::cli {

std::optional<double> FirstSample(absl::string_view exposition,
                                  absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(exposition, '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    // A longer name that starts with this one goes on with a letter.
    if (line.empty() || (line.front() != '{' && line.front() != ' ')) continue;
    const size_t labels_end = line.rfind('}');
    if (labels_end != absl::string_view::npos) {
      line.remove_prefix(labels_end + 1);
    }
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipWhitespace());
    double value = 0;
    if (!words.empty() && absl::SimpleAtod(words[0], &value)) return value;
  }
  return std::nullopt;
}

}  // namespace baton::cli
