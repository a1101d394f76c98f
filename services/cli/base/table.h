// Text tables and a progress bar for terminals. Pure.
#ifndef BATON_SERVICES_CLI_BASE_TABLE_H_
#define BATON_SERVICES_CLI_BASE_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::cli {

// Columns padded to their widest cell, two spaces apart. The first column is
// left-aligned; the others too, unless `right_align`. Short rows are allowed.
std::string RenderTable(const std::vector<std::vector<std::string>>& rows,
                        bool right_align);

// "loading  [#####.....]  50 %": `ratio` is held to [0, 1].
std::string RenderProgress(absl::string_view label, double ratio, int width);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BASE_TABLE_H_
