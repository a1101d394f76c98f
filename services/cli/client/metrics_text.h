// Reads single samples out of a Prometheus exposition. Pure.
#ifndef BATON_SERVICES_CLI_CLIENT_METRICS_TEXT_H_
#define BATON_SERVICES_CLI_CLIENT_METRICS_TEXT_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace baton::cli {

// The first sample of the metric, whatever its labels; no value if there is
// none.
std::optional<double> FirstSample(absl::string_view exposition,
                                  absl::string_view name);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLIENT_METRICS_TEXT_H_
