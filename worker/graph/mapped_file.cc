#include "worker/graph/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::worker {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int value() const { return value_; }

 private:
  const int value_;
};

absl::Status SystemError(const std::string& path) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(errno));
  return errno == ENOENT ? absl::NotFoundError(text)
                         : absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(
    const std::string& path) {
  const Descriptor file(path);
  struct stat info;
  if (file.value() < 0 || fstat(file.value(), &info) != 0) {
    return SystemError(path);
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file, or empty"));
  }
  FileIdentity identity;
  identity.device = info.st_dev;
  identity.inode = info.st_ino;
  identity.size = info.st_size;
  identity.modified_nanoseconds =
      int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
  void* data =
      mmap(nullptr, identity.size, PROT_READ, MAP_SHARED, file.value(), 0);
  if (data == MAP_FAILED) return SystemError(path);
  return std::unique_ptr<MappedFile>(
      new MappedFile(static_cast<const char*>(data), identity.size, identity));
}

MappedFile::~MappedFile() { munmap(const_cast<char*>(data_), size_); }

}  // namespace baton::worker
