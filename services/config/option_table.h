// One table of options a program: from it come the command line, the
// environment, the YAML file, the help text and the sample file.
//
// Precedence, always: flag > environment (BATON_<SECTION>_<NAME>) > YAML file
// (--config FILE, map <section>, keys as the long names) > default. An unknown
// flag, key of the section, or BATON_<SECTION>_ variable refuses to start, and
// so does a variable whose section is one edit away from a known one; all
// faults are reported at once, each with file:line or variable name and the
// nearest known name.
#ifndef BATON_SERVICES_CONFIG_OPTION_TABLE_H_
#define BATON_SERVICES_CONFIG_OPTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton::config {

// Exit code of a program whose configuration is wrong (sysexits EX_CONFIG).
inline constexpr int kExitConfig = 78;

// Thread-compatible; lives in main.
class OptionTable {
 public:
  // `section`: "gateway", "worker", "kvstore", "up", …
  OptionTable(std::string program, std::string section, std::string summary);
  ~OptionTable();

  // Each target holds the default and outlives the table. Names are long
  // flags with dashes ("max-batch-tokens"); `short_name` 0 = none.
  void AddString(absl::string_view name, std::string* target,
                 absl::string_view help, char short_name = 0);
  // May be repeated on the command line; a YAML list; commas in a variable.
  void AddStrings(absl::string_view name, std::vector<std::string>* target,
                  absl::string_view help);
  void AddChoice(absl::string_view name, std::string* target,
                 std::vector<std::string> choices, absl::string_view help);
  // --name / --no-name.
  void AddBool(absl::string_view name, bool* target, absl::string_view help);
  void AddUint(absl::string_view name, uint32_t* target, uint32_t min,
               uint32_t max, absl::string_view help, char short_name = 0);
  void AddDouble(absl::string_view name, double* target, double min, double max,
                 absl::string_view help);
  // "30s", "250ms", "10m".
  void AddDuration(absl::string_view name, absl::Duration* target,
                   absl::string_view help);
  // "4GiB", "512MiB", "1000".
  void AddBytes(absl::string_view name, uint64_t* target,
                absl::string_view help);
  // A value for `name` must come from some source; it may not be empty.
  void Require(absl::string_view name);
  // What is left on the command line; without this call: an error.
  void AddPositional(absl::string_view name, std::vector<std::string>* target,
                     absl::string_view help);
  // What the values together must fulfil. Called by Parse, once, when each by
  // itself is right; a status that is not OK is a configuration fault. All of
  // a program's checks belong here: --check-config then knows them.
  void SetCheck(std::function<absl::Status()> check);

  // What main should do next.
  struct Outcome {
    bool exit = false;   // --help, --version, --check-config, or an error
    int code = 0;        // 0, or kExitConfig
    std::string output;  // to print (stdout if code 0, else stderr)
  };
  Outcome Parse(int argc, const char* const* argv,
                const std::map<std::string, std::string>& environment);

  // The file that Parse has read: --config, else BATON_CONFIG; empty = none.
  const std::string& config_file() const;
  // Where each value came from, one line an option: "name = value (flag)".
  std::string Origins() const;
  // A commented sample file of this section.
  std::string SampleYaml() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// The process's environment as a map; the only reader of it.
std::map<std::string, std::string> ProcessEnvironment();

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_OPTION_TABLE_H_
