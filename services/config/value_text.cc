#include "services/config/value_text.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/checked_math.h"

namespace baton::config {
namespace {

absl::Status Wrong(absl::string_view text, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not ", expected));
}

struct ByteUnit {
  absl::string_view name;
  uint64_t bytes;
};

constexpr uint64_t kKi = 1024;

// Longer names first: "KiB" ends in "B" too.
constexpr std::array<ByteUnit, 13> kByteUnits = {{
    {"TiB", kKi* kKi* kKi* kKi},
    {"GiB", kKi* kKi* kKi},
    {"MiB", kKi* kKi},
    {"KiB", kKi},
    {"TB", 1000000000000},
    {"GB", 1000000000},
    {"MB", 1000000},
    {"KB", 1000},
    {"T", kKi* kKi* kKi* kKi},
    {"G", kKi* kKi* kKi},
    {"M", kKi* kKi},
    {"K", kKi},
    {"B", 1},
}};

bool AllDigits(absl::string_view text) {
  if (text.empty()) return false;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  for (absl::string_view yes : {"true", "yes", "on", "1"}) {
    if (absl::EqualsIgnoreCase(text, yes)) return true;
  }
  for (absl::string_view no : {"false", "no", "off", "0"}) {
    if (absl::EqualsIgnoreCase(text, no)) return false;
  }
  return Wrong(text, "true or false");
}

absl::StatusOr<uint32_t> ParseUint(absl::string_view text, uint32_t min,
                                   uint32_t max) {
  uint32_t value = 0;
  if (!AllDigits(text) || !absl::SimpleAtoi(text, &value) || value < min ||
      value > max) {
    return Wrong(text, absl::StrCat("a whole number from ", min, " to ", max));
  }
  return value;
}

absl::StatusOr<double> ParseDouble(absl::string_view text, double min,
                                   double max) {
  double value = 0;
  // The comparison is false for NaN.
  if (!absl::SimpleAtod(text, &value) || !(value >= min && value <= max) ||
      !std::isfinite(value)) {
    return Wrong(text, absl::StrCat("a number from ", FormatDouble(min), " to ",
                                    FormatDouble(max)));
  }
  return value;
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration value;
  if (!absl::ParseDuration(text, &value) || value < absl::ZeroDuration() ||
      value == absl::InfiniteDuration()) {
    return Wrong(text, "a duration such as 250ms, 30s or 10m");
  }
  return value;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  absl::string_view digits = text;
  uint64_t unit = 1;
  for (const ByteUnit& candidate : kByteUnits) {
    if (absl::EndsWithIgnoreCase(text, candidate.name)) {
      unit = candidate.bytes;
      digits = absl::StripAsciiWhitespace(
          text.substr(0, text.size() - candidate.name.size()));
      break;
    }
  }
  uint64_t count = 0;
  if (!AllDigits(digits) || !absl::SimpleAtoi(digits, &count)) {
    return Wrong(text, "a size such as 1000, 512MiB or 4GiB");
  }
  const std::optional<uint64_t> bytes = CheckedMul(count, unit);
  if (!bytes.has_value()) return Wrong(text, "a size of fewer than 16 EiB");
  return *bytes;
}

std::string FormatDouble(double value) {
  // The shortest of the two forms that reads back as the same number.
  std::string text = absl::StrFormat("%.6g", value);
  double again = 0;
  if (absl::SimpleAtod(text, &again) && again == value) return text;
  return absl::StrFormat("%.17g", value);
}

std::string FormatBytes(uint64_t bytes) {
  for (int i = 0; i < 4; ++i) {
    const ByteUnit& unit = kByteUnits[i];
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes, unit.name);
    }
  }
  return absl::StrCat(bytes);
}

}  // namespace baton::config
