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

// The first of the closest names, or empty if every one is further away than a
// third of the length of `name` (at least two edits are allowed).
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& known);

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_NEAREST_NAME_H_
