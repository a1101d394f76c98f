// A whole file as a string.
#ifndef BATON_SERVICES_CLI_BASE_READ_FILE_H_
#define BATON_SERVICES_CLI_BASE_READ_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace baton::cli {

// Errors, each with the path and the system's reason: kNotFound (cannot be
// opened), kUnavailable (cannot be read; a directory).
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BASE_READ_FILE_H_
