#include "services/cli/http_client.h"

#include <netdb.h>
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
#include "services/cli/unique_fd.h"

namespace baton::cli {
namespace {

namespace http = boost::beast::http;
using Parser = http::response_parser<http::string_body>;

// Of one answer, a stream's pieces counted together.
constexpr uint64_t kMaxBodyBytes = uint64_t{1} << 30;

absl::Status SocketError(const std::string& address, absl::string_view what) {
  const std::string message =
      absl::StrCat(address, ": ", what, ": ", std::strerror(errno));
  // A blocking socket with a timeout reports it as "try again".
  if (errno == EAGAIN || errno == EINPROGRESS) {
    return absl::DeadlineExceededError(message);
  }
  return absl::UnavailableError(message);
}

absl::StatusOr<UniqueFd> Connect(const std::string& address,
                                 absl::Duration silence) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is not host:port"));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.substr(0, colon).c_str(),
                  address.substr(colon + 1).c_str(), &hints, &found);
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
      result = SocketError(address, "connect");
    }
  }
  freeaddrinfo(found);
  return result;
}

absl::Status Send(const UniqueFd& fd, const std::string& address,
                  absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0) return SocketError(address, "send");
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

absl::StatusOr<HttpResponse> Receive(const UniqueFd& fd,
                                     const std::string& address,
                                     const BodyPiece& on_piece) {
  Parser parser;
  parser.eager(true);
  parser.body_limit(kMaxBodyBytes);
  std::string pending;
  std::array<char, 16384> buffer;
  while (!parser.is_done()) {
    const ssize_t n = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (n < 0) return SocketError(address, "receive");
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
    if (on_piece && parser.is_header_done() &&
        parser.get().result_int() == 200 && !parser.get().body().empty()) {
      // The parser appends to the body: what was handed out is dropped.
      const std::string piece = std::move(parser.get().body());
      parser.get().body().clear();
      if (!on_piece(piece)) break;
    }
  }
  return HttpResponse{static_cast<int>(parser.get().result_int()),
                      std::move(parser.get().body())};
}

absl::StatusOr<HttpResponse> Exchange(const std::string& url,
                                      absl::Duration silence,
                                      absl::string_view start,
                                      absl::string_view rest,
                                      const BodyPiece& on_piece) {
  const std::string address(
      absl::StripSuffix(absl::StripPrefix(url, "http://"), "/"));
  BATON_ASSIGN_OR_RETURN(UniqueFd fd, Connect(address, silence));
  BATON_RETURN_IF_ERROR(Send(fd, address,
                             absl::StrCat(start, " HTTP/1.1\r\nHost: ", address,
                                          "\r\nConnection: close\r\n", rest)));
  return Receive(fd, address, on_piece);
}

}  // namespace

absl::StatusOr<HttpResponse> HttpGet(const std::string& address,
                                     const std::string& path,
                                     absl::Duration silence) {
  return Exchange(address, silence, absl::StrCat("GET ", path), "\r\n",
                  nullptr);
}

absl::StatusOr<HttpResponse> HttpPostJson(const std::string& address,
                                          const std::string& path,
                                          const std::string& json,
                                          absl::Duration silence,
                                          const BodyPiece& on_piece) {
  return Exchange(address, silence, absl::StrCat("POST ", path),
                  absl::StrCat("Content-Type: application/json\r\n"
                               "Content-Length: ",
                               json.size(), "\r\n\r\n", json),
                  on_piece);
}

}  // namespace baton::cli
