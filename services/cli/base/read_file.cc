#include "services/cli/base/read_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "services/cli/base/unique_fd.h"

namespace baton::cli {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // A directory opens like a file, and fails when it is read.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  std::string text;
  std::array<char, 65536> buffer;
  ssize_t n = 0;
  while ((n = read(fd.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), n);
  }
  if (n < 0) {
    return absl::UnavailableError(
        absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace baton::cli
