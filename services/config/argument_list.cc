#include "services/config/argument_list.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton::config {
namespace {

// One pass over argv.
class ArgumentReader {
 public:
  ArgumentReader(int argc, const char* const* argv,
                 const std::vector<Option>& options)
      : arguments_(argv + (argc > 0 ? 1 : 0), argv + argc), options_(options) {}

  ArgumentList Read() {
    while (next_ < arguments_.size()) {
      const std::string argument = arguments_[next_++];
      if (only_positional_ || argument.size() < 2 || argument[0] != '-') {
        out_.positional.push_back(argument);
      } else if (argument == "--") {
        only_positional_ = true;
      } else if (argument[1] == '-') {
        ReadLong(argument.substr(2));
      } else {
        ReadShort(argument);
      }
    }
    return std::move(out_);
  }

 private:
  // The text after '=', or the next argument unless that is a long flag.
  std::optional<std::string> TakeValue(const std::string& flag,
                                       const std::optional<std::string>& given,
                                       const std::string& placeholder) {
    if (given.has_value()) return given;
    if (next_ < arguments_.size() &&
        !absl::StartsWith(arguments_[next_], "--")) {
      return arguments_[next_++];
    }
    out_.faults.push_back(
        absl::StrCat("flag ", flag, ": needs a value ", placeholder));
    return std::nullopt;
  }

  bool ReadBuiltIn(const std::string& name,
                   const std::optional<std::string>& given) {
    if (name == "config") {
      if (auto value = TakeValue("--config", given, "FILE")) {
        out_.config_file = *value;
      }
      return true;
    }
    bool* target = name == "help"            ? &out_.help
                   : name == "version"       ? &out_.version
                   : name == "check-config"  ? &out_.check_config
                   : name == "print-config"  ? &out_.print_config
                   : name == "sample-config" ? &out_.sample_config
                                             : nullptr;
    if (target == nullptr) return false;
    *target = true;
    return true;
  }

  void ReadLong(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    std::optional<std::string> given;
    if (equals != std::string::npos) given = text.substr(equals + 1);
    if (ReadBuiltIn(name, given)) return;
    for (size_t i = 0; i < options_.size(); ++i) {
      if (name == options_[i].name) return Take(i, "--" + name, given);
      if (options_[i].shape == Option::Shape::kBool && !given.has_value() &&
          name == "no-" + options_[i].name) {
        out_.values[i] = {"false"};
        return;
      }
    }
    // Its value, if it had one, must not be read as a positional argument.
    if (!given.has_value() && next_ < arguments_.size() &&
        !absl::StartsWith(arguments_[next_], "-")) {
      ++next_;
    }
    out_.unknown_flags.push_back(name);
  }

  void ReadShort(const std::string& argument) {
    if (argument == "-h") {
      out_.help = true;
      return;
    }
    for (size_t i = 0; i < options_.size(); ++i) {
      if (options_[i].short_name != argument[1]) continue;
      std::optional<std::string> given;
      if (argument.size() > 2) given = argument.substr(2);
      return Take(i, argument.substr(0, 2), given);
    }
    out_.faults.push_back(absl::StrCat("flag ", argument, ": unknown flag"));
  }

  void Take(size_t index, const std::string& flag,
            const std::optional<std::string>& given) {
    const Option& option = options_[index];
    if (option.shape == Option::Shape::kBool) {
      out_.values[index] = {given.value_or("true")};
      return;
    }
    const auto value = TakeValue(flag, given, option.placeholder);
    if (!value.has_value()) return;
    if (option.shape != Option::Shape::kList) out_.values[index].clear();
    out_.values[index].push_back(*value);
  }

  const std::vector<std::string> arguments_;
  const std::vector<Option>& options_;
  size_t next_ = 0;
  bool only_positional_ = false;
  ArgumentList out_;
};

}  // namespace

ArgumentList ReadArguments(int argc, const char* const* argv,
                           const std::vector<Option>& options) {
  return ArgumentReader(argc, argv, options).Read();
}

}  // namespace baton::config
