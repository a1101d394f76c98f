#include "services/cli/client/http_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/base/status_macros.h"
#include "services/cli/base/signals.h"
#include "services/cli/base/unique_fd.h"

namespace baton::cli {
namespace {

namespace http = boost::beast::http;
using Parser = http::response_parser<http::string_body>;

// Of one answer, a stream's pieces counted together.
constexpr uint64_t kMaxBodyBytes = uint64_t{1} << 30;

// Of errno; `code` unless the time was over.
absl::Status SocketError(absl::StatusCode code, const std::string& address,
                         absl::string_view what) {
  const std::string message =
      absl::StrCat(address, ": ", what, ": ", std::strerror(errno));
  // A blocking socket with a timeout reports it as "try again".
  if (errno == EAGAIN || errno == EINPROGRESS) {
    return absl::DeadlineExceededError(message);
  }
  return absl::Status(code, message);
}

absl::StatusOr<UniqueFd> Connect(const std::string& address,
                                 absl::Duration silence) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not host:port"));
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);  // IPv6
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(),
                                &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(address, ": ", gai_strerror(error)));
  }
  absl::StatusOr<UniqueFd> result = absl::UnavailableError(address);
  for (const addrinfo* at = found; at != nullptr && !result.ok();
       at = at->ai_next) {
    UniqueFd fd(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = absl::ToTimeval(silence);
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) {
      result = std::move(fd);
    } else {
      result = SocketError(absl::StatusCode::kUnavailable, address, "connect");
    }
  }
  freeaddrinfo(found);
  return result;
}

absl::Status Send(const UniqueFd& fd, const std::string& address,
                  absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0) return SocketError(absl::StatusCode::kDataLoss, address, "send");
    text.remove_prefix(n);
  }
  return absl::OkStatus();
}

// Feeds all of `pending` that makes sense now; the rest stays.
absl::Status Parse(Parser* parser, const std::string& address,
                   std::string* pending) {
  while (!pending->empty() && !parser->is_done()) {
    boost::system::error_code error;
    const size_t used = parser->put(
        boost::asio::const_buffer(pending->data(), pending->size()), error);
    pending->erase(0, used);
    if (error == http::error::need_more) return absl::OkStatus();
    if (error) {
      return absl::DataLossError(
          absl::StrCat(address, ": not HTTP: ", error.message()));
    }
  }
  return absl::OkStatus();
}

// What an exchange hands its pieces to, and what ends it early.
struct Listener {
  const BodyPiece& on_piece;
  int cancel_fd;
  absl::Duration silence;
};

absl::Status AwaitBytes(const UniqueFd& fd, const std::string& address,
                        const Listener& listener) {
  std::array<pollfd, 2> fds = {
      {{fd.get(), POLLIN, 0}, {listener.cancel_fd, POLLIN, 0}}};
  if (poll(fds.data(), fds.size(), PollTimeout(listener.silence)) == 0) {
    return absl::DeadlineExceededError(
        absl::StrCat(address, ": nothing came for ",
                     absl::FormatDuration(listener.silence)));
  }
  if (fds[1].revents != 0) return absl::CancelledError("cancelled");
  return absl::OkStatus();
}

absl::StatusOr<HttpResponse> Receive(const UniqueFd& fd,
                                     const std::string& address,
                                     const Listener& listener) {
  Parser parser;
  parser.eager(true);
  parser.body_limit(kMaxBodyBytes);
  std::string pending;
  std::array<char, 16384> buffer;
  while (!parser.is_done()) {
    BATON_RETURN_IF_ERROR(AwaitBytes(fd, address, listener));
    const ssize_t n = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (n < 0)
      return SocketError(absl::StatusCode::kDataLoss, address, "receive");
    if (n == 0) {
      boost::system::error_code error;
      if (parser.got_some()) parser.put_eof(error);
      if (error || !parser.is_done()) {
        return absl::DataLossError(
            absl::StrCat(address, ": the answer was cut short"));
      }
      break;
    }
    pending.append(buffer.data(), n);
    BATON_RETURN_IF_ERROR(Parse(&parser, address, &pending));
    if (listener.on_piece && parser.is_header_done() &&
        parser.get().result_int() == 200 && !parser.get().body().empty()) {
      // The parser appends to the body: what was handed out is dropped.
      const std::string piece = std::move(parser.get().body());
      parser.get().body().clear();
      if (!listener.on_piece(piece)) break;
    }
  }
  return HttpResponse{static_cast<int>(parser.get().result_int()),
                      std::move(parser.get().body())};
}

absl::StatusOr<HttpResponse> Exchange(
    const std::string& url, absl::Duration silence, absl::string_view start,
    absl::string_view rest, const BodyPiece& on_piece, int cancel_fd) {
  const std::string address(
      absl::StripSuffix(absl::StripPrefix(url, "http://"), "/"));
  BATON_ASSIGN_OR_RETURN(UniqueFd fd, Connect(address, silence));
  BATON_RETURN_IF_ERROR(Send(fd, address,
                             absl::StrCat(start, " HTTP/1.1\r\nHost: ", address,
                                          "\r\nConnection: close\r\n", rest)));
  return Receive(fd, address, {on_piece, cancel_fd, silence});
}

}  // namespace

absl::StatusOr<HttpResponse> HttpGet(const std::string& address,
                                     const std::string& path,
                                     absl::Duration silence) {
  return Exchange(address, silence, absl::StrCat("GET ", path), "\r\n", nullptr,
                  -1);
}

absl::StatusOr<HttpResponse> HttpPostJson(const std::string& address,
                                          const std::string& path,
                                          const std::string& json,
                                          absl::Duration silence,
                                          const BodyPiece& on_piece,
                                          int cancel_fd) {
  return Exchange(address, silence, absl::StrCat("POST ", path),
                  absl::StrCat("Content-Type: application/json\r\n"
                               "Content-Length: ",
                               json.size(), "\r\n\r\n", json),
                  on_piece, cancel_fd);
}

}  // namespace baton::cli
