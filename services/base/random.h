// Unpredictable numbers for identities (epochs, leases, seeds, request ids).
// Not for sampling: that is a pure function of (seed, position).
#ifndef BATON_SERVICES_BASE_RANDOM_H_
#define BATON_SERVICES_BASE_RANDOM_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// From the system's generator; never zero. Thread-safe.
uint64_t RandomIdentity();

// `prefix` followed by 24 hexadecimal digits, e.g. "chatcmpl-5f0c…".
std::string RandomName(absl::string_view prefix);

}  // namespace baton

#endif  // BATON_SERVICES_BASE_RANDOM_H_
