// One option of a table, and the texts made from a list of them. Internal to
// services/config; programs use option_table.h.
#ifndef BATON_SERVICES_CONFIG_OPTION_H_
#define BATON_SERVICES_CONFIG_OPTION_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton::config {

struct Option {
  enum class Shape { kValue, kBool, kList };

  std::string name;  // "max-batch-tokens"
  std::string help;
  char short_name = 0;  // 0 = none
  Shape shape = Shape::kValue;
  std::string placeholder;  // "FILE", "N", …; empty for kBool
  bool required = false;
  // Checks the texts (exactly one unless kList) and stores the value.
  std::function<absl::Status(const std::vector<std::string>&)> set;
  // The value now, one text per element.
  std::function<std::vector<std::string>()> show;
  std::vector<std::string> default_value;
  std::string origin = "default";
};

// BATON_<SECTION>_<NAME>.
std::string EnvironmentName(absl::string_view section, absl::string_view name);

std::string HelpText(const std::string& program, const std::string& section,
                     const std::string& summary, const std::string& positional,
                     const std::vector<Option>& options);
// "name = value (origin)", one line an option.
std::string OriginsText(const std::vector<Option>& options);
// A YAML file with every key commented out at its default.
std::string SampleText(const std::string& program, const std::string& section,
                       const std::vector<Option>& options);

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_OPTION_H_
