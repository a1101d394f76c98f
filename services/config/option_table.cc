#include "services/config/option_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/base/status_macros.h"
#include "services/config/argument_list.h"
#include "services/config/nearest_name.h"
#include "services/config/option.h"
#include "services/config/value_text.h"
#include "services/config/yaml_section.h"

namespace baton::config {
namespace {

// What one file may hold; an operator can keep the whole cluster in one.
const std::vector<std::string>& KnownSections() {
  static const auto* const sections = new std::vector<std::string>{
      "gateway", "worker", "kvstore", "up", "chat", "bench", "demo", "doctor"};
  return *sections;
}

// The right name of a variable whose section is mistyped
// (BATON_GATEWY_HTTP, BATON_KV_STORE_CAPACITY); empty for any other variable,
// of which many are not configuration (BATON_CACHE, BATON_MODEL_DIR). One edit
// is the limit: BATON_STORE_CAPACITY, which compose reads, is two away from
// the section "kvstore".
std::string WithSectionCorrected(const std::string& name) {
  constexpr absl::string_view kPrefix = "BATON_";
  constexpr size_t kShortestSection = 4;  // one edit in "up" is half of it
  if (!absl::StartsWith(name, kPrefix)) return "";
  for (const std::string& section : KnownSections()) {
    if (absl::StartsWith(name, EnvironmentName(section, ""))) return "";
  }
  for (size_t end = name.find('_', kPrefix.size()); end != std::string::npos;
       end = name.find('_', end + 1)) {
    const std::string given = absl::AsciiStrToLower(
        name.substr(kPrefix.size(), end - kPrefix.size()));
    for (const std::string& section : KnownSections()) {
      if (section.size() >= kShortestSection && end + 1 < name.size() &&
          EditDistance(given, section) == 1) {
        return EnvironmentName(section, name.substr(end + 1));
      }
    }
  }
  return "";
}

std::string DidYouMean(const std::string& nearest, absl::string_view prefix) {
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean ", prefix, nearest, "?");
}

std::string FaultText(const std::string& program,
                      const std::vector<std::string>& faults) {
  if (faults.size() == 1) {
    return absl::StrCat(program, ": ", faults.front(), "\n");
  }
  return absl::StrCat(program, ": ", faults.size(), " configuration faults\n  ",
                      absl::StrJoin(faults, "\n  "), "\n");
}

// A setter for one text, from a parser that gives StatusOr<T>.
template <typename T, typename Parser>
auto Setter(T* target, Parser parse) {
  return [target, parse](const std::vector<std::string>& texts) {
    BATON_ASSIGN_OR_RETURN(*target, parse(texts.front()));
    return absl::OkStatus();
  };
}

Option MakeOption(absl::string_view name, absl::string_view help,
                  std::string placeholder, char short_name = 0) {
  return {.name = std::string(name),
          .help = std::string(help),
          .short_name = short_name,
          .placeholder = std::move(placeholder)};
}

}  // namespace

struct OptionTable::State {
  std::string program;
  std::string section;
  std::string summary;
  std::string positional;
  std::vector<std::string>* positional_target = nullptr;
  std::function<absl::Status()> check;
  std::string config_file;
  std::vector<Option> options;
  std::vector<std::string> faults;

  Option* Find(absl::string_view name) {
    for (Option& option : options) {
      if (option.name == name) return &option;
    }
    return nullptr;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Option& option : options) names.push_back(option.name);
    return names;
  }

  void Add(Option option) {
    BATON_CHECK(Find(option.name) == nullptr, "each option is added once");
    option.default_value = option.show();
    options.push_back(std::move(option));
  }

  void Set(Option* option, const std::vector<std::string>& texts,
           const std::string& place) {
    const absl::Status status = option->set(texts);
    if (!status.ok()) {
      faults.push_back(
          absl::StrCat(place, ": ", option->name, ": ", status.message()));
      return;
    }
    option->origin = place;
  }

  void ReadFile(const std::string& path);
  void ReadEnvironment(const std::map<std::string, std::string>& environment);
  void ApplyFlags(const ArgumentList& arguments);
  void CheckRequired();
};

void OptionTable::State::ReadFile(const std::string& path) {
  std::vector<std::string> sections = KnownSections();
  if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
    sections.push_back(section);
  }
  const YamlSection file = ReadYamlSection(path, section, sections);
  faults.insert(faults.end(), file.faults.begin(), file.faults.end());
  for (const YamlEntry& entry : file.entries) {
    Option* option = Find(entry.key);
    if (option == nullptr) {
      faults.push_back(
          absl::StrCat(entry.place, ": unknown key \"", entry.key, "\"",
                       DidYouMean(NearestName(entry.key, Names()), "")));
    } else if (entry.is_list && option->shape != Option::Shape::kList) {
      faults.push_back(absl::StrCat(entry.place, ": ", entry.key,
                                    " takes one value, not a list"));
    } else {
      Set(option, entry.values, entry.place);
    }
  }
}

void OptionTable::State::ReadEnvironment(
    const std::map<std::string, std::string>& environment) {
  const std::string prefix = EnvironmentName(section, "");
  std::vector<std::string> known;  // without the prefix
  for (const Option& option : options) {
    known.push_back(
        EnvironmentName(section, option.name).substr(prefix.size()));
  }
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, prefix)) {
      const std::string corrected = WithSectionCorrected(name);
      if (!corrected.empty()) {
        faults.push_back(absl::StrCat("environment ", name, ": unknown section",
                                      DidYouMean(corrected, "")));
      }
      continue;
    }
    const std::string rest = name.substr(prefix.size());
    const auto match = std::find(known.begin(), known.end(), rest);
    if (match == known.end()) {
      faults.push_back(
          absl::StrCat("environment ", name, ": unknown variable",
                       DidYouMean(NearestName(rest, known), prefix)));
      continue;
    }
    Option& option = options[match - known.begin()];
    std::vector<std::string> texts = {value};
    if (option.shape == Option::Shape::kList) {
      texts = absl::StrSplit(value, ',', absl::SkipEmpty());
    }
    Set(&option, texts, absl::StrCat("environment ", name));
  }
}

void OptionTable::State::ApplyFlags(const ArgumentList& arguments) {
  for (const std::string& name : arguments.unknown_flags) {
    std::vector<std::string> known = Names();
    for (absl::string_view flag : kBuiltInFlags) {
      known.push_back(std::string(flag));
    }
    const std::string nearest = NearestName(name, known);
    faults.push_back(absl::StrCat("flag --", name, ": unknown flag",
                                  DidYouMean(nearest, "--")));
  }
  faults.insert(faults.end(), arguments.faults.begin(), arguments.faults.end());
  for (const auto& [index, texts] : arguments.values) {
    Set(&options[index], texts, absl::StrCat("flag --", options[index].name));
  }
  if (positional_target != nullptr) {
    *positional_target = arguments.positional;
  } else {
    for (const std::string& text : arguments.positional) {
      faults.push_back(absl::StrCat("argument \"", text, "\": not expected"));
    }
  }
}

void OptionTable::State::CheckRequired() {
  for (const Option& option : options) {
    if (!option.required) continue;
    const std::vector<std::string> value = option.show();
    if (value.empty() || value.front().empty()) {
      faults.push_back(absl::StrCat(option.name, ": required; give --",
                                    option.name, " or ",
                                    EnvironmentName(section, option.name)));
    }
  }
}

OptionTable::OptionTable(std::string program, std::string section,
                         std::string summary)
    : state_(std::make_unique<State>()) {
  state_->program = std::move(program);
  state_->section = std::move(section);
  state_->summary = std::move(summary);
}

OptionTable::~OptionTable() = default;

void OptionTable::AddString(absl::string_view name, std::string* target,
                            absl::string_view help, char short_name) {
  Option option = MakeOption(name, help, "TEXT", short_name);
  option.set = [target](const std::vector<std::string>& texts) {
    *target = texts.front();
    return absl::OkStatus();
  };
  option.show = [target] { return std::vector<std::string>{*target}; };
  state_->Add(std::move(option));
}

void OptionTable::AddStrings(absl::string_view name,
                             std::vector<std::string>* target,
                             absl::string_view help) {
  Option option = MakeOption(name, help, "TEXT");
  option.shape = Option::Shape::kList;
  option.set = [target](const std::vector<std::string>& texts) {
    *target = texts;
    return absl::OkStatus();
  };
  option.show = [target] { return *target; };
  state_->Add(std::move(option));
}

void OptionTable::AddChoice(absl::string_view name, std::string* target,
                            std::vector<std::string> choices,
                            absl::string_view help) {
  Option option = MakeOption(name, help, absl::StrJoin(choices, "|"));
  option.set = [target, choices = std::move(choices)](
                   const std::vector<std::string>& texts) -> absl::Status {
    if (std::find(choices.begin(), choices.end(), texts.front()) ==
        choices.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", texts.front(), "\" is not one of ",
                       absl::StrJoin(choices, ", "),
                       DidYouMean(NearestName(texts.front(), choices), "")));
    }
    *target = texts.front();
    return absl::OkStatus();
  };
  option.show = [target] { return std::vector<std::string>{*target}; };
  state_->Add(std::move(option));
}

void OptionTable::AddBool(absl::string_view name, bool* target,
                          absl::string_view help) {
  Option option = MakeOption(name, help, "");
  option.shape = Option::Shape::kBool;
  option.set = Setter(target, &ParseBool);
  option.show = [target] {
    return std::vector<std::string>{*target ? "true" : "false"};
  };
  state_->Add(std::move(option));
}

void OptionTable::AddUint(absl::string_view name, uint32_t* target,
                          uint32_t min, uint32_t max, absl::string_view help,
                          char short_name) {
  Option option = MakeOption(name, help, "N", short_name);
  option.set = Setter(target, [min, max](const std::string& text) {
    return ParseUint(text, min, max);
  });
  option.show = [target] {
    return std::vector<std::string>{absl::StrCat(*target)};
  };
  state_->Add(std::move(option));
}

void OptionTable::AddDouble(absl::string_view name, double* target, double min,
                            double max, absl::string_view help) {
  Option option = MakeOption(name, help, "NUMBER");
  option.set = Setter(target, [min, max](const std::string& text) {
    return ParseDouble(text, min, max);
  });
  option.show = [target] {
    return std::vector<std::string>{FormatDouble(*target)};
  };
  state_->Add(std::move(option));
}

void OptionTable::AddDuration(absl::string_view name, absl::Duration* target,
                              absl::string_view help) {
  Option option = MakeOption(name, help, "TIME");
  option.set = Setter(
      target, [](const std::string& text) { return ParseDuration(text); });
  option.show = [target] {
    return std::vector<std::string>{absl::FormatDuration(*target)};
  };
  state_->Add(std::move(option));
}

void OptionTable::AddBytes(absl::string_view name, uint64_t* target,
                           absl::string_view help) {
  Option option = MakeOption(name, help, "SIZE");
  option.set =
      Setter(target, [](const std::string& text) { return ParseBytes(text); });
  option.show = [target] {
    return std::vector<std::string>{FormatBytes(*target)};
  };
  state_->Add(std::move(option));
}

void OptionTable::Require(absl::string_view name) {
  Option* option = state_->Find(name);
  BATON_CHECK(option != nullptr, "only an added option can be required");
  option->required = true;
}

void OptionTable::AddPositional(absl::string_view name,
                                std::vector<std::string>* target,
                                absl::string_view help) {
  state_->positional = std::string(name);
  state_->positional_target = target;
  absl::StrAppend(&state_->summary, "\n", name, ": ", help);
}

void OptionTable::SetCheck(std::function<absl::Status()> check) {
  state_->check = std::move(check);
}

const std::string& OptionTable::config_file() const {
  return state_->config_file;
}

OptionTable::Outcome OptionTable::Parse(
    int argc, const char* const* argv,
    const std::map<std::string, std::string>& environment) {
  State& state = *state_;
  const ArgumentList arguments = ReadArguments(argc, argv, state.options);
  if (arguments.help) {
    return {true, 0,
            HelpText(state.program, state.section, state.summary,
                     state.positional, state.options)};
  }
  if (arguments.version) {
    return {true, 0, absl::StrCat(state.program, " ", BATON_VERSION, "\n")};
  }
  if (arguments.sample_config) return {true, 0, SampleYaml()};

  state.config_file = arguments.config_file;
  const auto variable = environment.find("BATON_CONFIG");
  if (state.config_file.empty() && variable != environment.end()) {
    state.config_file = variable->second;
  }
  if (!state.config_file.empty()) state.ReadFile(state.config_file);
  state.ReadEnvironment(environment);
  state.ApplyFlags(arguments);
  state.CheckRequired();
  if (state.faults.empty() && state.check) {
    const absl::Status checked = state.check();
    if (!checked.ok()) state.faults.push_back(std::string(checked.message()));
  }
  if (!state.faults.empty()) {
    return {true, kExitConfig, FaultText(state.program, state.faults)};
  }
  if (arguments.print_config) return {true, 0, Origins()};
  if (arguments.check_config) {
    return {true, 0, absl::StrCat(state.program, ": configuration is valid\n")};
  }
  return {};
}

std::string OptionTable::Origins() const {
  return OriginsText(state_->options);
}

std::string OptionTable::SampleYaml() const {
  return SampleText(state_->program, state_->section, state_->options);
}

}  // namespace baton::config
