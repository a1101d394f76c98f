// A command line, split by the table's flags. Internal to services/config.
#ifndef BATON_SERVICES_CONFIG_ARGUMENT_LIST_H_
#define BATON_SERVICES_CONFIG_ARGUMENT_LIST_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/config/option.h"

namespace baton::config {

// Every program has these.
inline constexpr std::array<absl::string_view, 6> kBuiltInFlags = {
    "config",       "help",         "version",
    "check-config", "print-config", "sample-config"};

struct ArgumentList {
  // Index of the option → its texts, unchecked. A flag given again replaces
  // its value; a list grows.
  std::map<size_t, std::vector<std::string>> values;
  std::vector<std::string> positional;
  std::vector<std::string> unknown_flags;  // names, without dashes
  std::vector<std::string> faults;
  std::string config_file;
  bool help = false;
  bool version = false;
  bool check_config = false;
  bool print_config = false;
  bool sample_config = false;
};

// Forms: --name VALUE, --name=VALUE, -n VALUE, --flag, --no-flag; after "--"
// everything is positional. argv[0] is skipped.
ArgumentList ReadArguments(int argc, const char* const* argv,
                           const std::vector<Option>& options);

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_ARGUMENT_LIST_H_
