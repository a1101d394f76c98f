#include "services/http/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/log.h"
#include "services/base/random.h"
#include "services/http/head_check.h"
#include "services/http/response_head.h"

namespace baton::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr size_t kReadBytes = 4096;
// Pipelined bytes kept while busy; with more than these a leaving client is
// only noticed when its answer is written.
constexpr size_t kMaxPipelinedBytes = 64 << 10;
constexpr size_t kMaxLoggedBytes = 128;  // of a path
constexpr size_t kLingerReadBytes = 256 << 10;
// How much of an oversized body is read and dropped, and for how long, so
// that the client reads its answer instead of a connection reset.
constexpr uint64_t kMaxLingerBytes = 256 << 20;
constexpr absl::Duration kLingerTime = absl::Seconds(5);
// From the first probe of a half-closed peer to the last.
constexpr absl::Duration kProbeAgain = absl::Seconds(1);
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";

std::string ToString(beast::string_view text) {
  return std::string(text.data(), text.size());
}

// Splits a target; "http://host/path" is reduced to its path.
void SplitTarget(std::string target, Request* request) {
  if (absl::StartsWithIgnoreCase(target, "http://") ||
      absl::StartsWithIgnoreCase(target, "https://")) {
    const size_t slash = target.find('/', target.find("//") + 2);
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  const size_t question = target.find('?');
  request->path = target.substr(0, question);
  if (question != std::string::npos) {
    request->query = target.substr(question + 1);
  }
}

// The writer that handlers hold; the connection may die before it, and it
// may die before the connection.
class ExchangeWriter final : public ResponseWriter {
 public:
  ExchangeWriter(std::shared_ptr<Connection> connection, uint64_t id)
      : connection_(std::move(connection)), id_(id) {}
  ~ExchangeWriter() override { connection_->ExchangeDropped(id_); }
  void Send(Response response) override {
    connection_->ExchangeSend(id_, std::move(response));
  }
  void Begin(Response head) override {
    connection_->ExchangeBegin(id_, std::move(head));
  }
  bool Write(absl::string_view bytes) override {
    return connection_->ExchangeWrite(id_, bytes);
  }
  void Finish() override { connection_->ExchangeFinish(id_); }
  void OnClosed(std::function<void()> callback) override {
    connection_->ExchangeOnClosed(id_, std::move(callback));
  }
  void OnSilent(absl::Duration period,
                std::function<void()> callback) override {
    connection_->ExchangeOnSilent(id_, period, std::move(callback));
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const uint64_t id_;
};

}  // namespace

Connection::Connection(Socket socket, const Limits& limits,
                       std::shared_ptr<ConnectionHost> host)
    : limits_(limits),
      host_(std::move(host)),
      socket_(std::move(socket)),
      read_timer_(socket_.get_executor()),
      write_timer_(socket_.get_executor()),
      silence_timer_(socket_.get_executor()) {}

void Connection::Start() {
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    Error ignored;
    self->socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    self->AwaitRequest();
  });
}

void Connection::RequestClose() {
  asio::post(socket_.get_executor(),
             [self = shared_from_this()] { self->Close(); });
}

// Reading ------------------------------------------------------------------

void Connection::AwaitRequest() {
  phase_ = Phase::kIdle;
  if (buffer_.size() == 0) {
    ArmReadTimer(limits_.idle_timeout);
    Watch();
  } else if (reading_) {
    // The next request is here already, behind a read that waits for more.
    Error ignored;
    socket_.cancel(ignored);
  } else {
    ReadHeader();
  }
}

void Connection::Watch() {
  if (reading_ || buffer_.size() >= kMaxPipelinedBytes) return;
  reading_ = true;
  socket_.async_read_some(
      buffer_.prepare(kReadBytes),
      [self = shared_from_this()](Error error, size_t bytes) {
        self->OnWatched(error, bytes);
      });
}

void Connection::OnWatched(Error error, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kLingering) {
    if (error && error != asio::error::operation_aborted) return Close();
    lingered_bytes_ += bytes;
    return Linger();
  }
  if (error == asio::error::eof && phase_ == Phase::kBusy) {
    return OnHalfClosed();
  }
  if (error && error != asio::error::operation_aborted) return Close();
  buffer_.commit(bytes);
  if (phase_ == Phase::kIdle && buffer_.size() > 0) return ReadHeader();
  Watch();
}

void Connection::OnHalfClosed() {
  half_closed_ = true;
  // Another read would only say so again; this ends when a reset comes.
  reading_ = true;
  socket_.async_wait(Socket::wait_error,
                     [self = shared_from_this()](Error error) {
                       if (!error) error = asio::error::connection_reset;
                       self->OnWatched(error, 0);
                     });
  ArmReadTimer(kProbeAgain);
  ProbePeer(/*last=*/false);
}

void Connection::ProbePeer(bool last) {
  std::function<void()> ping;
  bool left = false;
  {
    MutexLock lock(&mutex_);
    // An answer under way is a probe itself.
    if (!exchange_.active) return;
    if (exchange_.on_silent) {
      ping = exchange_.on_silent;
      exchange_.last_write = absl::Now();
    } else if (!exchange_.begun && exchange_.http_1_0) {
      left = last;
    } else if (!exchange_.begun) {
      exchange_.pending += kContinue;
    }
  }
  if (left) return Close();
  if (ping) ping();
  Flush();
}

void Connection::ReadHeader() {
  phase_ = Phase::kHeader;
  parser_.emplace();
  // Beast counts the first line or not, depending on how the bytes arrive:
  // OnHeader counts exactly, and this only bounds what is not yet complete.
  parser_->header_limit(limits_.max_header_bytes + 4);
  parser_->body_limit(limits_.max_body_bytes);
  ArmReadTimer(limits_.header_timeout);
  reading_ = true;
  beast::http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](Error error, size_t bytes) {
        self->reading_ = false;
        self->OnHeader(error, bytes);
      });
}

void Connection::OnHeader(Error error, size_t bytes) {
  if (phase_ == Phase::kLingering) return Linger();
  if (phase_ != Phase::kHeader) return;
  if (!error && bytes > limits_.max_header_bytes) {
    error = beast::http::error::header_limit;
  }
  if (error) return OnReadError(error);
  phase_ = Phase::kBody;
  ArmReadTimer(limits_.body_timeout);
  if (auto refusal = CheckHead(parser_->get())) {
    return Reject(*std::move(refusal));
  }
  if (!ExpectsContinue(parser_->get()) || parser_->is_done()) {
    return ReadBody();
  }
  out_ = kContinue;
  out_offset_ = 0;
  writing_ = true;
  WriteSome();
  ReadBody();
}

void Connection::ReadBody() {
  reading_ = true;
  beast::http::async_read(socket_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, size_t) {
                            self->reading_ = false;
                            self->OnBody(error);
                          });
}

void Connection::OnBody(Error error) {
  if (phase_ == Phase::kLingering) return Linger();
  if (phase_ != Phase::kBody) return;
  if (error) return OnReadError(error);
  ++read_timer_round_;
  read_timer_.cancel();
  Dispatch();
}

void Connection::OnReadError(Error error) {
  if (error == beast::http::error::body_limit) {
    return Reject(413, "request_too_large", "The request body is too large");
  }
  if (error == beast::http::error::header_limit ||
      error == beast::http::error::buffer_overflow) {
    return Reject(431, "header_too_large", "The request header is too large");
  }
  static const beast::error_category& kProtocol =
      beast::http::make_error_code(beast::http::error::bad_method).category();
  if (error.category() == kProtocol &&
      error != beast::http::error::end_of_stream) {
    return Reject(400, "invalid_value", "The request is not valid HTTP");
  }
  Close();
}

void Connection::Dispatch() {
  const Parser::value_type& message = parser_->get();
  Request request;
  request.method = ToString(message.method_string());
  SplitTarget(ToString(message.target()), &request);
  for (const auto& field : message) {
    request.headers.emplace_back(
        absl::AsciiStrToLower(ToString(field.name_string())),
        ToString(field.value()));
  }
  const std::string request_id = RequestId();
  uint64_t id = 0;
  {
    MutexLock lock(&mutex_);
    Exchange next;
    next.id = id = exchange_.id + 1;
    next.active = true;
    next.http_1_0 = message.version() < 11;
    next.keep_alive = message.keep_alive() && !host_->stopping();
    next.head_only = message.method() == beast::http::verb::head;
    next.gone = exchange_.gone;
    next.last_write = absl::Now();
    next.request_id = request_id;
    exchange_ = std::move(next);
  }
  path_ = request.path.substr(0, kMaxLoggedBytes);
  request.body = std::move(parser_->get().body());
  parser_.reset();
  phase_ = Phase::kBusy;
  host_->OnBusy(true);
  Watch();
  auto writer = std::make_shared<ExchangeWriter>(shared_from_this(), id);
  if (!host_->Dispatch(std::move(request), writer)) {
    host_->OnRejected(503);
    Response full = JsonError(503, "unavailable_error", "overloaded",
                              "Too many requests wait for a thread");
    full.headers.emplace_back("retry-after", "1");
    full.headers.emplace_back("x-request-id", request_id);
    writer->Send(std::move(full));
  }
}

void Connection::Reject(int status, absl::string_view code,
                        absl::string_view message) {
  Reject(JsonError(status, "invalid_request_error", code, message));
}

void Connection::Reject(Response response) {
  const std::string request_id = RequestId();
  Log(LogLevel::kDebug, "http request refused",
      {{"status", response.status}, {"request_id", request_id}});
  response.headers.emplace_back("x-request-id", request_id);
  host_->OnRejected(response.status);
  phase_ = Phase::kRejecting;
  ArmReadTimer(limits_.write_timeout);
  HeadOptions head;
  head.keep_alive = false;
  const std::string bytes =
      absl::StrCat(FormatHead(response, head), response.body);
  // Behind a "100 Continue" that may still be on its way.
  if (writing_) {
    out_ += bytes;
    return;
  }
  out_ = bytes;
  out_offset_ = 0;
  writing_ = true;
  WriteSome();
}

std::string Connection::RequestId() const {
  const std::string id =
      UsableRequestId(ToString(parser_->get()["x-request-id"]));
  return id.empty() ? RandomName("req-") : id;
}

// Ending --------------------------------------------------------------------

void Connection::Linger() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kLingering) {
    phase_ = Phase::kLingering;
    Error ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    ArmReadTimer(kLingerTime);
    // A pending read ends in OnWatched or in a handler that sees the phase.
    socket_.cancel(ignored);
    buffer_.clear();
  }
  if (reading_) return;
  if (lingered_bytes_ > kMaxLingerBytes) return Close();
  reading_ = true;
  socket_.async_read_some(
      buffer_.prepare(kLingerReadBytes),
      [self = shared_from_this()](Error error, size_t bytes) {
        self->OnWatched(error, bytes);
      });
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  const bool was_busy = phase_ == Phase::kBusy;
  phase_ = Phase::kClosed;
  std::pair<std::function<void()>, std::function<void()>> callbacks;
  {
    MutexLock lock(&mutex_);
    exchange_.gone = true;
    exchange_.pending.clear();
    exchange_.taken = 0;
    CountBytesLocked();
    callbacks = EndLocked();
  }
  ++read_timer_round_;
  read_timer_.cancel();
  write_timer_.cancel();
  silence_timer_.cancel();
  Error ignored;
  socket_.close(ignored);
  if (was_busy) host_->OnBusy(false);
  if (callbacks.first) callbacks.first();
  host_->OnConnectionClosed(this);
}

void Connection::ArmReadTimer(absl::Duration timeout) {
  read_timer_.expires_after(absl::ToChronoNanoseconds(timeout));
  read_timer_.async_wait(
      [self = shared_from_this(), round = ++read_timer_round_](Error error) {
        if (!error && round == self->read_timer_round_) self->OnReadTimeout();
      });
}

void Connection::OnReadTimeout() {
  if (phase_ == Phase::kHeader || phase_ == Phase::kBody) {
    return Reject(408, "request_timeout", "The request came too slowly");
  }
  if (phase_ == Phase::kBusy) return ProbePeer(/*last=*/true);
  Close();
}

}  // namespace baton::http
