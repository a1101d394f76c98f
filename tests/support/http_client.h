// A blocking HTTP client on a raw socket, so that tests can send what no
// proper client would. Reads give up after 10 seconds.
#ifndef BATON_TESTS_SUPPORT_HTTP_CLIENT_H_
#define BATON_TESTS_SUPPORT_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton::http {

struct ClientResponse {
  int status = 0;                              // 0: no complete response came
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;                            // chunks joined
  bool complete = false;
};

// Thread-compatible.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    timeval timeout{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address),
                           sizeof(address)) == 0;
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Sends nothing more, but reads on.
  void CloseSending() { ::shutdown(socket_, SHUT_WR); }
  // Leaves with a reset instead of an orderly end.
  void Reset() {
    const linger now{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }
  // From now on each read takes at most `bytes` and waits `milliseconds`
  // first; little waits in the kernel for it.
  void ReadSlowly(size_t bytes, int milliseconds) {
    const int kernel_bytes = 64 << 10;
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &kernel_bytes,
               sizeof(kernel_bytes));
    read_bytes_ = std::min(bytes, kReadBytes);
    pause_milliseconds_ = milliseconds;
  }
  // False once the peer refuses more.
  bool Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent =
          ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Reads until `marker` has come; what came up to its end. Empty: it did not.
  std::string ReadUntil(absl::string_view marker) {
    while (!absl::StrContains(buffer_, marker)) {
      if (!ReadMore()) return "";
    }
    return Take(buffer_.find(std::string(marker)) + marker.size());
  }
  // True if the peer closes before anything more comes.
  bool ReadsEnd() { return buffer_.empty() && !ReadMore() && ended_; }

  ClientResponse ReadResponse(bool head_only = false) {
    ClientResponse response;
    ReadHead(&response);
    if (response.status == 0) return response;
    if (head_only) {
      response.complete = true;
    } else if (Has(response, "transfer-encoding", "chunked")) {
      ReadChunks(&response);
    } else if (response.headers.count("content-length") > 0) {
      size_t length = 0;
      (void)absl::SimpleAtoi(response.headers["content-length"], &length);
      while (buffer_.size() < length && ReadMore()) {
      }
      response.complete = buffer_.size() >= length;
      response.body = Take(std::min(length, buffer_.size()));
    } else {
      while (ReadMore()) {
      }
      response.complete = ended_;
      response.body = Take(buffer_.size());
    }
    return response;
  }

 private:
  bool ReadMore() {
    char bytes[kReadBytes];
    if (pause_milliseconds_ > 0) ::poll(nullptr, 0, pause_milliseconds_);
    const ssize_t got = ::recv(socket_, bytes, read_bytes_, 0);
    if (got == 0) ended_ = true;
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(got));
    return true;
  }
  std::string Take(size_t count) {
    std::string taken = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return taken;
  }
  static bool Has(const ClientResponse& response, const std::string& name,
                  absl::string_view value) {
    const auto found = response.headers.find(name);
    return found != response.headers.end() && found->second == value;
  }
  void ReadHead(ClientResponse* response) {
    std::string head = ReadUntil("\r\n\r\n");
    while (absl::StartsWith(head, "HTTP/1.1 100 ")) {
      head = ReadUntil("\r\n\r\n");
    }
    if (head.size() < 12) return;
    (void)absl::SimpleAtoi(head.substr(9, 3), &response->status);
    size_t line = head.find("\r\n") + 2;
    while (line < head.size() - 2) {
      const size_t end = head.find("\r\n", line);
      const size_t colon = head.find(": ", line);
      if (colon < end) {
        response
            ->headers[absl::AsciiStrToLower(head.substr(line, colon - line))] =
            head.substr(colon + 2, end - colon - 2);
      }
      line = end + 2;
    }
  }
  void ReadChunks(ClientResponse* response) {
    while (true) {
      const std::string line = ReadUntil("\r\n");
      uint64_t size = 0;
      if (line.size() < 3 ||
          !absl::SimpleHexAtoi(line.substr(0, line.size() - 2), &size)) {
        return;
      }
      while (buffer_.size() < size + 2) {
        if (!ReadMore()) return;
      }
      response->body += Take(size);
      Take(2);
      if (size == 0) {
        response->complete = true;
        return;
      }
    }
  }

  static constexpr size_t kReadBytes = 65536;

  int socket_;
  size_t read_bytes_ = kReadBytes;
  int pause_milliseconds_ = 0;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

inline std::string GetRequest(absl::string_view path,
                              absl::string_view headers = "",
                              absl::string_view method = "GET") {
  return absl::StrCat(method, " ", path, " HTTP/1.1\r\nhost: test\r\n", headers,
                      "\r\n");
}

inline std::string PostRequest(absl::string_view path, absl::string_view body,
                               absl::string_view headers = "") {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nhost: test\r\n", headers,
                      "content-length: ", body.size(), "\r\n\r\n", body);
}

}  // namespace baton::http

#endif  // BATON_TESTS_SUPPORT_HTTP_CLIENT_H_
