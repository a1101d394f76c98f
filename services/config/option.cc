#include "services/config/option.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace baton::config {
namespace {

constexpr size_t kHelpColumn = 28;
constexpr size_t kHelpWidth = 80;

// Appends `words` from column `column` on, wrapped at kHelpWidth; the cursor
// stands at `at`.
void AppendWrapped(std::string* out, absl::string_view words, size_t at,
                   size_t column) {
  if (at >= column) {
    out->push_back('\n');
    at = 0;
  }
  out->append(column - at, ' ');
  at = column;
  for (absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (at > column && at + 1 + word.size() > kHelpWidth) {
      out->push_back('\n');
      out->append(column, ' ');
      at = column;
    }
    if (at > column) {
      out->push_back(' ');
      ++at;
    }
    absl::StrAppend(out, word);
    at += word.size();
  }
  out->push_back('\n');
}

void AppendFlag(std::string* out, const std::string& flag,
                absl::string_view help) {
  absl::StrAppend(out, "  ", flag);
  AppendWrapped(out, help, flag.size() + 2, kHelpColumn);
}

std::string FlagText(const Option& option) {
  std::string flag =
      option.short_name != 0
          ? absl::StrCat("-", std::string(1, option.short_name), ", --")
          : "    --";
  if (option.shape == Option::Shape::kBool) {
    return absl::StrCat(flag, "[no-]", option.name);
  }
  absl::StrAppend(&flag, option.name, " ", option.placeholder);
  if (option.shape == Option::Shape::kList) flag.append("...");
  return flag;
}

// A double-quoted YAML scalar, or plain where plain reads back the same.
std::string YamlScalar(const std::string& text) {
  bool plain = !text.empty() && text != "null" && text != "~";
  for (unsigned char c : text) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '/' &&
        c != '-' && c != ':') {
      plain = false;
    }
  }
  // "- " starts a list and ": " a map; without spaces only the ends matter.
  if (plain && text.front() != '-' && text.front() != ':' &&
      text.back() != ':') {
    return text;
  }
  return absl::StrCat(
      "\"",
      absl::StrReplaceAll(text,
                          {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
      "\"");
}

std::string YamlValue(const Option& option,
                      const std::vector<std::string>& value) {
  if (option.shape != Option::Shape::kList) return YamlScalar(value.front());
  std::vector<std::string> items;
  for (const std::string& item : value) items.push_back(YamlScalar(item));
  return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

// The help text as a sentence, so that what follows does not run into it.
std::string Sentence(const Option& option) {
  if (option.help.empty() || option.help.back() == '.') return option.help;
  return option.help + ".";
}

std::string DefaultNote(const Option& option) {
  if (option.required) return " Required.";
  const std::string value = absl::StrJoin(option.default_value, ",");
  if (value.empty()) return "";
  return absl::StrCat(" Default: ", value, ".");
}

}  // namespace

std::string EnvironmentName(absl::string_view section, absl::string_view name) {
  std::string out = absl::StrCat("BATON_", section, "_", name);
  absl::StrReplaceAll({{"-", "_"}}, &out);
  absl::AsciiStrToUpper(&out);
  return out;
}

std::string HelpText(const std::string& program, const std::string& section,
                     const std::string& summary, const std::string& positional,
                     const std::vector<Option>& options) {
  std::string out = absl::StrCat(
      summary, "\n\nUsage: ", program, " [options]",
      positional.empty() ? "" : absl::StrCat(" [", positional, "...]"),
      "\n\nOptions:\n");
  for (const Option& option : options) {
    AppendFlag(&out, FlagText(option),
               absl::StrCat(Sentence(option), DefaultNote(option)));
  }
  out.append("\nConfiguration:\n");
  AppendFlag(&out, "    --config FILE",
             absl::StrCat("YAML file; reads its section \"", section,
                          "\". BATON_CONFIG names it too."));
  AppendFlag(&out, "    --check-config", "Check every source, then exit.");
  AppendFlag(&out, "    --print-config",
             "Print each value and where it comes from, then exit.");
  AppendFlag(&out, "    --sample-config",
             "Print a commented sample file, then exit.");
  AppendFlag(&out, "-h, --help", "Print this text.");
  AppendFlag(&out, "    --version", "Print the version.");
  absl::StrAppend(
      &out, "\nA flag wins over its variable ",
      EnvironmentName(section, "<NAME>"),
      ",\nthe variable over the file, the file over the default.\n");
  return out;
}

std::string OriginsText(const std::vector<Option>& options) {
  std::string out;
  for (const Option& option : options) {
    absl::StrAppend(&out, option.name, " = ", YamlValue(option, option.show()),
                    " (", option.origin, ")\n");
  }
  return out;
}

std::string SampleText(const std::string& program, const std::string& section,
                       const std::vector<Option>& options) {
  std::string out = absl::StrCat("# Options of ", program,
                                 ", each at its default.\n", section, ":\n");
  for (const Option& option : options) {
    out.append("\n");
    std::string help;
    AppendWrapped(&help, option.help, 0, 4);
    for (absl::string_view line :
         absl::StrSplit(help, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&out, "  # ", absl::StripLeadingAsciiWhitespace(line),
                      "\n");
    }
    absl::StrAppend(&out, "  #", option.name, ": ",
                    YamlValue(option, option.default_value), "\n");
  }
  return out;
}

}  // namespace baton::config
