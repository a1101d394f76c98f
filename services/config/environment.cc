#include <unistd.h>

#include <cstring>

#include "services/config/option_table.h"

namespace baton::config {

std::map<std::string, std::string> ProcessEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr) continue;
    environment.emplace(std::string(*entry, equals - *entry), equals + 1);
  }
  return environment;
}

}  // namespace baton::config
