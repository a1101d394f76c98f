// A whole file, mapped read-only and shared between processes. Another
// process that cuts the file while it is mapped kills this one (SIGBUS): model
// files are replaced by renaming, not by writing over them.
#ifndef BATON_WORKER_GRAPH_MAPPED_FILE_H_
#define BATON_WORKER_GRAPH_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::worker {

// What tells one file's contents from another's without reading them.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_nanoseconds = 0;
};

// Immutable; thread-safe.
class MappedFile {
 public:
  // Errors: kNotFound, kInvalidArgument (not a regular file, empty, not
  // readable).
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return {data_, size_}; }
  const FileIdentity& identity() const { return identity_; }

 private:
  MappedFile(const char* data, size_t size, const FileIdentity& identity)
      : data_(data), size_(size), identity_(identity) {}

  const char* const data_;
  const size_t size_;
  const FileIdentity identity_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_MAPPED_FILE_H_
