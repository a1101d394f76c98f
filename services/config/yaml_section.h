// One program's section of a YAML file. The only user of yaml-cpp, which
// throws; here its exceptions become faults with a place.
//
// The file is a map from section names to maps from option names to values:
//
//   worker:
//     model: /models/a.gguf
//     threads: 8
#ifndef BATON_SERVICES_CONFIG_YAML_SECTION_H_
#define BATON_SERVICES_CONFIG_YAML_SECTION_H_

#include <string>
#include <vector>

namespace baton::config {

struct YamlEntry {
  std::string key;
  std::vector<std::string> values;  // one, unless `is_list`
  bool is_list = false;
  std::string place;  // "file:line:column" of the key, from 1
};

struct YamlSection {
  std::vector<YamlEntry> entries;
  std::vector<std::string> faults;  // each starts with its place
};

// `sections`: every section a file may have; another name is a fault. The
// other sections' contents belong to other programs and are not looked at. A
// section that the file lacks is empty; a key without a value is a fault.
YamlSection ReadYamlSection(const std::string& path, const std::string& section,
                            const std::vector<std::string>& sections);

}  // namespace baton::config

#endif  // BATON_SERVICES_CONFIG_YAML_SECTION_H_
