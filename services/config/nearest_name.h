// "Did you mean": the known name closest to a mistyped one. Pure.
#ifndef BATON_SERVICES_CONFIG_NEAREST_NAME_H_
#define BATON_SERVICES_CONFIG_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::config {

// Insertions, deletions, replacements and swaps of neighbours that turn `a`
// into `b` (optimal string alignment).
size_t EditDistance(absl::string_view a, absl::string_view b);

// The first of the closest names, or empty if every one is further away than
// one edit for a name of up to three letters, two for a longer one, a third of
// its length from nine letters on. Pass what can be mistyped alone: a common
// prefix would make everything look close.
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& known);

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_NEAREST_NAME_H_
