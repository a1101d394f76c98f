// Finds the special tokens of a vocabulary in text.
// Immutable after construction; thread-safe.
#ifndef BATON_SERVICES_TEXT_SPECIAL_TOKENS_H_
#define BATON_SERVICES_TEXT_SPECIAL_TOKENS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/base/ids.h"

namespace baton::text {

class SpecialTokens {
 public:
  struct Entry {
    std::string text;
    TokenId id = 0;
    // Control tokens count only where the text is trusted. The others (user
    // defined) are words of the vocabulary and count everywhere.
    bool control = false;
  };
  // A part of the text: a special token, or what lies between two of them.
  struct Fragment {
    size_t begin = 0;
    size_t end = 0;
    TokenId token = -1;  // -1 = ordinary text
  };
  // Half-open, ascending, neither touching nor overlapping.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };

  SpecialTokens() = default;
  // Entries with empty text are ignored.
  explicit SpecialTokens(std::vector<Entry> entries);

  // Fragments that together are `text`. Longer tokens are found before shorter
  // ones, wherever they stand; equal ones from the left. A control token is
  // matched only where it lies wholly inside one of `trusted`.
  std::vector<Fragment> Partition(absl::string_view text,
                                  const std::vector<Range>& trusted) const;

 private:
  static void Find(absl::string_view text, const Entry& entry,
                   const std::vector<Range>& trusted,
                   std::vector<Fragment>& fragments);

  std::vector<Entry> entries_;  // longest first
};

}  // namespace baton::text

#endif  // BATON_SERVICES_TEXT_SPECIAL_TOKENS_H_
