#include "services/cli/cluster/log_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace baton::cli {

absl::StatusOr<std::unique_ptr<LogFolder>> LogFolder::Create(
    const std::string& wanted, const std::string& temporary) {
  if (!wanted.empty()) {
    std::error_code error;
    std::filesystem::create_directories(wanted, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("log folder ", wanted, ": ", error.message()));
    }
    return std::unique_ptr<LogFolder>(new LogFolder(wanted, false));
  }
  std::string path = absl::StrCat(temporary, "/baton-up-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("log folder ", path, ": ", std::strerror(errno)));
  }
  return std::unique_ptr<LogFolder>(new LogFolder(path, true));
}

LogFolder::~LogFolder() {
  if (!temporary_ || keep_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace baton::cli
