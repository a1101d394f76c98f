// Any bytes as what a client sends before it ends its sending side: each
// request is framed in one way only, however the bytes are cut, and the
// connection ends.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/http/connection.h"

namespace baton::http {
namespace {

namespace asio = boost::asio;
using Local = asio::local::stream_protocol;
using Error = boost::system::error_code;

void Require(bool holds) {
  if (!holds) std::abort();
}

// What came of one client's bytes.
struct Outcome {
  std::vector<std::string> requests;
  std::vector<int> rejected;
  bool closed = false;
  std::string answers;
};

Limits SmallLimits() {
  Limits limits;
  limits.max_header_bytes = 1 << 10;
  limits.max_body_bytes = 1 << 10;
  return limits;
}

// Answers each request in its call.
class Host final : public ConnectionHost {
 public:
  explicit Host(Outcome* outcome) : outcome_(outcome) {}

  bool Dispatch(Request request,
                std::shared_ptr<ResponseWriter> writer) override {
    Check(request);
    outcome_->requests.push_back(
        absl::StrCat(request.method, " ", request.path, "?", request.query, " ",
                     request.headers.size(), " ", request.body));
    if (absl::StartsWith(request.path, "/s")) {
      writer->Begin(Response());
      writer->Write("ab");
      writer->Finish();
    } else if (absl::StartsWith(request.path, "/full")) {
      return false;
    } else if (!absl::StartsWith(request.path, "/drop")) {
      Response response;
      response.body = "ok";
      writer->Send(std::move(response));
    }
    return true;
  }
  void OnRejected(int status) override {
    // Which of two faults is seen first may depend on the pieces.
    const bool is_fault = status == 413 || status == 431;
    outcome_->rejected.push_back(is_fault ? 400 : status);
  }
  void OnBusy(bool busy) override { busy_ += busy ? 1 : -1; }
  void OnConnectionClosed(Connection*) override {
    Require(busy_ == 0 && !std::exchange(outcome_->closed, true));
  }
  bool stopping() const override { return false; }
  std::atomic<size_t>* buffered_bytes() override { return &buffered_; }

 private:
  static void Check(const Request& request) {
    Require(request.body.size() <= SmallLimits().max_body_bytes);
    int lengths = 0;
    int codings = 0;
    for (const auto& [name, value] : request.headers) {
      for (const char c : absl::StrCat(name, value)) {
        Require(c != '\r' && c != '\n' && c != '\0');
      }
      if (name == "content-length") ++lengths;
      if (name != "transfer-encoding" || value.empty()) continue;
      ++codings;
      Require(absl::StrContains(absl::AsciiStrToLower(value), "chunked"));
    }
    Require(codings == 0 || (codings == 1 && lengths == 0));
    if (codings == 0 && lengths == 0) Require(request.body.empty());
  }

  Outcome* const outcome_;
  std::atomic<size_t> buffered_ = 0;
  int busy_ = 0;
};

class Exchanges {
 public:
  // Sends the bytes in pieces of at most `piece` and reads to the end.
  Outcome Run(const std::string& bytes, size_t piece) {
    int ends[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    Local::socket client(io_, Local(), ends[0]);
    // The connection asks nothing of its socket that a local one cannot do.
    Connection::Socket server(asio::make_strand(io_));
    server.assign(asio::ip::tcp::v4(), ends[1]);
    std::make_shared<Connection>(std::move(server), SmallLimits(),
                                 std::make_shared<Host>(&outcome_))
        ->Start();
    Read(&client);
    Error error;
    for (size_t at = 0; at < bytes.size() && !error; at += piece) {
      asio::write(
          client,
          asio::buffer(bytes.data() + at, std::min(piece, bytes.size() - at)),
          error);
      io_.poll();
    }
    client.shutdown(Local::socket::shutdown_send, error);
    // Ends when the connection has closed: nothing else waits.
    io_.run();
    return std::move(outcome_);
  }

 private:
  void Read(Local::socket* client) {
    client->async_read_some(asio::buffer(buffer_),
                            [this, client](Error error, size_t bytes) {
                              if (error) return;
                              outcome_.answers.append(buffer_, bytes);
                              Read(client);
                            });
  }

  asio::io_context io_;
  Outcome outcome_;
  char buffer_[4096];
};

// Answers, without interim ones: status lines, not what an error's text says of
// HTTP/1.0.
size_t CountAnswers(const std::string& text) {
  const auto is_status_line = [&](size_t at) {
    if (text.size() < at + 13 || text[at + 8] != ' ') return false;
    for (size_t i = at + 9; i < at + 12; ++i) {
      if (!absl::ascii_isdigit(static_cast<unsigned char>(text[i]))) {
        return false;
      }
    }
    return text[at + 12] == ' ' && text.compare(at + 9, 3, "100") != 0;
  };
  size_t count = 0;
  for (size_t at = text.find("HTTP/1."); at != std::string::npos;
       at = text.find("HTTP/1.", at + 1)) {
    if (is_status_line(at)) ++count;
  }
  return count;
}

}  // namespace
}  // namespace baton::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace baton::http;  // NOLINT: the function is outside of it
  // What a local socket holds without anyone reading.
  if (size > 32 << 10) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = Exchanges().Run(bytes, bytes.size() + 1);
  Require(whole.closed && whole.rejected.size() <= 1 + whole.requests.size());
  const size_t answers = CountAnswers(whole.answers);
  Require(answers <= whole.requests.size() + 1);
  for (const size_t piece : {size_t{1}, size_t{7}}) {
    if (bytes.size() / piece > 400) continue;  // as slow as they are many
    const Outcome cut = Exchanges().Run(bytes, piece);
    Require(cut.closed && cut.requests == whole.requests &&
            cut.rejected == whole.rejected &&
            CountAnswers(cut.answers) == answers);
  }
  return 0;
}
