// A file descriptor with one owner, which closes it. Thread-compatible.
#ifndef BATON_SERVICES_CLI_BASE_UNIQUE_FD_H_
#define BATON_SERVICES_CLI_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace baton::cli {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }  // -1 = none
  bool valid() const { return fd_ >= 0; }
  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_BASE_UNIQUE_FD_H_
