#include "services/config/yaml_section.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "services/config/nearest_name.h"

namespace baton::config {
namespace {

std::string Place(const std::string& path, const YAML::Mark& mark) {
  if (mark.is_null()) return path;
  return absl::StrCat(path, ":", mark.line + 1, ":", mark.column + 1);
}

// A key's value: a scalar or a list of scalars.
void ReadEntry(const std::string& path, const YAML::Node& key,
               const YAML::Node& value, YamlSection* out) {
  YamlEntry entry;
  entry.key = key.Scalar();
  entry.place = Place(path, key.Mark());
  if (value.IsScalar()) {
    entry.values.push_back(value.Scalar());
  } else if (value.IsSequence()) {
    entry.is_list = true;
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) {
        out->faults.push_back(absl::StrCat(Place(path, item.Mark()),
                                           ": a list item of \"", entry.key,
                                           "\" must be a single value"));
        return;
      }
      entry.values.push_back(item.Scalar());
    }
  } else {
    out->faults.push_back(absl::StrCat(
        entry.place, ": \"", entry.key,
        value.IsNull() ? "\" has no value" : "\" must be a value or a list"));
    return;
  }
  out->entries.push_back(std::move(entry));
}

void ReadSection(const std::string& path, const std::string& section,
                 const YAML::Node& node, YamlSection* out) {
  if (node.IsNull()) return;
  if (!node.IsMap()) {
    out->faults.push_back(absl::StrCat(Place(path, node.Mark()), ": section \"",
                                       section, "\" must be a map"));
    return;
  }
  std::set<std::string> seen;
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) {
      out->faults.push_back(
          absl::StrCat(Place(path, pair.first.Mark()), ": a key must be text"));
    } else if (!seen.insert(pair.first.Scalar()).second) {
      // yaml-cpp keeps both and a look-up finds the first: refuse instead.
      out->faults.push_back(absl::StrCat(Place(path, pair.first.Mark()), ": \"",
                                         pair.first.Scalar(),
                                         "\" is given twice"));
    } else {
      ReadEntry(path, pair.first, pair.second, out);
    }
  }
}

void ReadFile(const std::string& path, const std::string& section,
              const std::vector<std::string>& sections, const YAML::Node& root,
              YamlSection* out) {
  if (root.IsNull()) return;
  if (!root.IsMap()) {
    out->faults.push_back(absl::StrCat(Place(path, root.Mark()),
                                       ": the file must be a map of sections"));
    return;
  }
  std::set<std::string> seen;
  for (const auto& pair : root) {
    const std::string name =
        pair.first.IsScalar() ? pair.first.Scalar() : std::string();
    const std::string place = Place(path, pair.first.Mark());
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
      const std::string nearest = NearestName(name, sections);
      out->faults.push_back(absl::StrCat(
          place, ": unknown section \"", name, "\"",
          nearest.empty() ? ""
                          : absl::StrCat("; did you mean \"", nearest, "\"?")));
    } else if (!seen.insert(name).second) {
      out->faults.push_back(
          absl::StrCat(place, ": section \"", name, "\" is given twice"));
    } else if (name == section) {
      ReadSection(path, section, pair.second, out);
    }
  }
}

}  // namespace

YamlSection ReadYamlSection(const std::string& path, const std::string& section,
                            const std::vector<std::string>& sections) {
  YamlSection out;
  // A directory opens like a file and then reads as an empty one.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    out.faults.push_back(absl::StrCat(path, ": is a directory"));
    return out;
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.is_open() || text.bad()) {
    out.faults.push_back(
        absl::StrCat(path, ": cannot read: ", std::strerror(errno)));
    return out;
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text.str());
    if (!documents.empty()) {
      ReadFile(path, section, sections, documents[0], &out);
    }
    if (documents.size() > 1) {
      out.faults.push_back(absl::StrCat(Place(path, documents[1].Mark()),
                                        ": a second document in the file"));
    }
  } catch (const YAML::Exception& error) {
    out.faults.push_back(
        absl::StrCat(Place(path, error.mark), ": ", error.msg));
  }
  return out;
}

}  // namespace baton::config
