// The folder of a cluster's logs: one that was asked for, which stays, or a
// temporary one, which goes unless it is kept.
#ifndef BATON_SERVICES_CLI_CLUSTER_LOG_FOLDER_H_
#define BATON_SERVICES_CLI_CLUSTER_LOG_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace baton::cli {

// Thread-compatible.
class LogFolder {
 public:
  // `wanted` is made if it is not there; empty = a new folder under
  // `temporary`. Errors: kUnavailable.
  static absl::StatusOr<std::unique_ptr<LogFolder>> Create(
      const std::string& wanted, const std::string& temporary);
  // Removes a temporary folder that nobody kept.
  ~LogFolder();

  const std::string& path() const { return path_; }
  bool temporary() const { return temporary_; }
  void Keep() { keep_ = true; }

 private:
  LogFolder(std::string path, bool temporary)
      : path_(std::move(path)), temporary_(temporary) {}

  const std::string path_;
  const bool temporary_;
  bool keep_ = false;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_CLUSTER_LOG_FOLDER_H_
