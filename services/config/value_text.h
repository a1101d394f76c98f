// Text of option values to their types and back. A value that is printed and
// parsed again is the same value. Pure; every error is kInvalidArgument with a
// message that says what would have been right.
#ifndef BATON_SERVICES_CONFIG_VALUE_TEXT_H_
#define BATON_SERVICES_CONFIG_VALUE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton::config {

// true/false, yes/no, on/off, 1/0, in any case.
absl::StatusOr<bool> ParseBool(absl::string_view text);
// Decimal digits only, within [min, max].
absl::StatusOr<uint32_t> ParseUint(absl::string_view text, uint32_t min,
                                   uint32_t max);
// Finite, within [min, max].
absl::StatusOr<double> ParseDouble(absl::string_view text, double min,
                                   double max);
// Finite, not negative, with a unit ("30s", "1h30m"); "0" needs none.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);
// A whole number, with or without B, KiB, MiB, GiB, TiB, or the decimal KB,
// MB, GB, TB; a lone K, M, G or T is binary.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

std::string FormatDouble(double value);
// In the largest binary unit that keeps it whole: 4 << 30 is "4GiB".
std::string FormatBytes(uint64_t bytes);

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_VALUE_TEXT_H_
