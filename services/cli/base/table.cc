#include "services/cli/base/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::cli {
namespace {

// Of UTF-8 text whose characters are one column wide each: all bytes but those
// that continue a character.
size_t Width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
}

}  // namespace

std::string RenderTable(const std::vector<std::vector<std::string>>& rows,
                        bool right_align) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      if (i > 0) line.append("  ");
      if (right_align && i > 0) {
        absl::StrAppend(&line, padding, row[i]);
      } else {
        absl::StrAppend(&line, row[i], padding);
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string RenderProgress(absl::string_view label, double ratio, int width) {
  const double held = std::isfinite(ratio) ? std::clamp(ratio, 0.0, 1.0) : 0.0;
  const int filled = static_cast<int>(std::floor(held * width));
  return absl::StrFormat("%s  [%s%s]  %3d %%", label, std::string(filled, '#'),
                         std::string(width - filled, '.'),
                         static_cast<int>(std::floor(held * 100)));
}

}  // namespace baton::cli
