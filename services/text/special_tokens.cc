#include "services/text/special_tokens.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <memory>
#include <utility>

namespace baton::text {
namespace {

bool InsideOne(const std::vector<SpecialTokens::Range>& ranges, size_t begin,
               size_t end) {
  // The last range that starts at or before `begin`.
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), begin,
      [](size_t b, const SpecialTokens::Range& r) { return b < r.begin; });
  return after != ranges.begin() && end <= std::prev(after)->end;
}

// The pairs of neighbouring bytes in a text: most special tokens are ruled out
// by their first pair, without a search.
class BytePairs {
 public:
  explicit BytePairs(absl::string_view text) {
    for (size_t i = 1; i < text.size(); ++i) seen_.set(Index(text, i - 1));
  }
  bool MayContain(absl::string_view needle) const {
    return needle.size() < 2 || seen_.test(Index(needle, 0));
  }

 private:
  static size_t Index(absl::string_view text, size_t i) {
    return static_cast<uint8_t>(text[i]) << 8 |
           static_cast<uint8_t>(text[i + 1]);
  }
  std::bitset<65536> seen_;
};

}  // namespace

SpecialTokens::SpecialTokens(std::vector<Entry> entries)
    : entries_(std::move(entries)) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [](const Entry& e) { return e.text.empty(); }),
                 entries_.end());
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) {
                     return a.text.size() > b.text.size();
                   });
}

std::vector<SpecialTokens::Fragment> SpecialTokens::Partition(
    absl::string_view text, const std::vector<Range>& trusted) const {
  if (text.empty()) return {};
  std::vector<Fragment> fragments = {{0, text.size(), -1}};
  const auto pairs = std::make_unique<BytePairs>(text);
  for (const Entry& entry : entries_) {
    if (entry.control && trusted.empty()) continue;
    if (!pairs->MayContain(entry.text)) continue;
    if (text.find(entry.text) == absl::string_view::npos) continue;
    Find(text, entry, trusted, fragments);
  }
  return fragments;
}

void SpecialTokens::Find(absl::string_view text, const Entry& entry,
                         const std::vector<Range>& trusted,
                         std::vector<Fragment>& fragments) {
  std::vector<Fragment> next;
  next.reserve(fragments.size() + 2);
  for (const Fragment& fragment : fragments) {
    if (fragment.token >= 0) {
      next.push_back(fragment);
      continue;
    }
    const absl::string_view part = text.substr(0, fragment.end);
    size_t begin = fragment.begin;
    size_t search = begin;
    while (true) {
      const size_t at = part.find(entry.text, search);
      if (at == absl::string_view::npos) break;
      const size_t end = at + entry.text.size();
      if (entry.control && !InsideOne(trusted, at, end)) {
        search = at + 1;
        continue;
      }
      if (at > begin) next.push_back({begin, at, -1});
      next.push_back({at, end, entry.id});
      begin = search = end;
    }
    if (begin < fragment.end) next.push_back({begin, fragment.end, -1});
  }
  fragments = std::move(next);
}

}  // namespace baton::text
