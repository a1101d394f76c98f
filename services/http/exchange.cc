// The answering half of Connection: what writers append, and how it leaves.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/log.h"
#include "services/http/connection.h"
#include "services/http/response_head.h"

namespace baton::http {
namespace {

constexpr size_t kWriteBytes = 256 << 10;  // written at once
// Larger buffers are freed when they are written.
constexpr size_t kKeptBytes = 256 << 10;

}  // namespace

void Connection::ExchangeSend(uint64_t id, Response response) {
  std::pair<std::function<void()>, std::function<void()>> dropped;
  MutexLock lock(&mutex_);
  if (!CurrentLocked(id) || exchange_.begun) return;
  HeadOptions head;
  head.http_1_0 = exchange_.http_1_0;
  head.keep_alive = exchange_.keep_alive;
  // Behind a probe that may not have left yet.
  exchange_.pending += FormatHead(response, head);
  if (!exchange_.head_only) exchange_.pending += response.body;
  exchange_.answered = true;
  dropped = EndLocked();
  PostFlushLocked();
}

void Connection::ExchangeBegin(uint64_t id, Response head) {
  MutexLock lock(&mutex_);
  if (!CurrentLocked(id) || exchange_.begun) return;
  exchange_.begun = true;
  exchange_.chunked = !exchange_.http_1_0;
  // Without chunks only the connection's end marks the body's end.
  if (!exchange_.chunked) exchange_.keep_alive = false;
  HeadOptions options;
  options.http_1_0 = exchange_.http_1_0;
  options.keep_alive = exchange_.keep_alive;
  options.framing =
      exchange_.chunked ? Framing::kChunked : Framing::kUntilClose;
  exchange_.pending += FormatHead(head, options);
  AppendPiece(head.body, exchange_.chunked, &exchange_.pending);
  exchange_.last_write = absl::Now();
  PostFlushLocked();
}

bool Connection::ExchangeWrite(uint64_t id, absl::string_view bytes) {
  MutexLock lock(&mutex_);
  if (!CurrentLocked(id) || !exchange_.begun || exchange_.overflow) {
    return false;
  }
  AppendPiece(bytes, exchange_.chunked, &exchange_.pending);
  const size_t held = CountBytesLocked();
  const bool crowded =
      held > limits_.fair_buffer_bytes &&
      host_->buffered_bytes()->load() > limits_.max_total_buffer_bytes;
  if (held > limits_.max_stream_buffer_bytes || crowded) {
    exchange_.overflow = true;
    boost::asio::post(
        socket_.get_executor(), [self = shared_from_this(), crowded] {
          self->Cut(crowded ? "all buffers are full" : "its buffer is full");
        });
    return false;
  }
  exchange_.last_write = absl::Now();
  PostFlushLocked();
  return true;
}

void Connection::ExchangeFinish(uint64_t id) {
  std::pair<std::function<void()>, std::function<void()>> dropped;
  MutexLock lock(&mutex_);
  if (!CurrentLocked(id) || !exchange_.begun) return;
  if (exchange_.chunked) exchange_.pending += "0\r\n\r\n";
  exchange_.answered = true;
  dropped = EndLocked();
  PostFlushLocked();
}

void Connection::ExchangeDropped(uint64_t id) {
  bool begun = false;
  Response dropped =
      JsonError(500, "server_error", "internal", "The request was dropped");
  {
    MutexLock lock(&mutex_);
    if (!CurrentLocked(id)) return;
    begun = exchange_.begun;
    dropped.headers.emplace_back("x-request-id", exchange_.request_id);
  }
  // A stream that breaks off must not look complete: no last chunk.
  if (begun) return RequestClose();
  ExchangeSend(id, std::move(dropped));
}

void Connection::ExchangeOnClosed(uint64_t id, std::function<void()> callback) {
  {
    MutexLock lock(&mutex_);
    if (exchange_.id != id || exchange_.answered) return;
    if (!exchange_.gone) {
      if (exchange_.active) exchange_.on_closed = std::move(callback);
      return;
    }
  }
  callback();
}

void Connection::ExchangeOnSilent(uint64_t id, absl::Duration period,
                                  std::function<void()> callback) {
  MutexLock lock(&mutex_);
  if (!CurrentLocked(id)) return;
  exchange_.on_silent = std::move(callback);
  exchange_.silent_period = period;
  exchange_.last_write = absl::Now();
  boost::asio::post(
      socket_.get_executor(),
      [self = shared_from_this(), period] { self->ArmSilenceTimer(period); });
}

size_t Connection::CountBytesLocked() {
  const size_t held = exchange_.pending.size() + exchange_.taken;
  // Unsigned arithmetic wraps: a shrinking buffer subtracts.
  host_->buffered_bytes()->fetch_add(held - exchange_.counted);
  exchange_.counted = held;
  return held;
}

void Connection::PostFlushLocked() {
  // Under the lock: a connection that closes sets `gone` under it too, so
  // nothing is posted once the listener's threads may have gone.
  boost::asio::post(socket_.get_executor(),
                    [self = shared_from_this()] { self->Flush(); });
}

std::pair<std::function<void()>, std::function<void()>>
Connection::EndLocked() {
  exchange_.active = false;
  return {std::exchange(exchange_.on_closed, nullptr),
          std::exchange(exchange_.on_silent, nullptr)};
}

void Connection::Flush() {
  if (writing_ || phase_ != Phase::kBusy) return;
  {
    MutexLock lock(&mutex_);
    out_.swap(exchange_.pending);
    exchange_.pending.clear();
    exchange_.taken = out_.size();
    CountBytesLocked();
    if (out_.empty() && exchange_.active) return;
  }
  if (out_.empty()) return FinishExchange();
  out_offset_ = 0;
  writing_ = true;
  WriteSome();
}

void Connection::WriteSome() {
  ArmWriteTimer();
  socket_.async_write_some(
      boost::asio::buffer(out_.data() + out_offset_,
                          std::min(kWriteBytes, out_.size() - out_offset_)),
      [self = shared_from_this()](Error error, size_t bytes) {
        self->OnWritten(error, bytes);
      });
}

void Connection::ArmWriteTimer() {
  kernel_bytes_ = KernelBytes();
  write_timer_.expires_after(absl::ToChronoNanoseconds(limits_.write_timeout));
  write_timer_.async_wait([self = shared_from_this()](Error error) {
    // A timer that ran out just before it was set anew says so by its expiry.
    if (!error && self->writing_ &&
        self->write_timer_.expiry() <= std::chrono::steady_clock::now()) {
      self->OnWriteTimeout();
    }
  });
}

void Connection::OnWriteTimeout() {
  // The kernel asks for more only when a third of its megabytes have left: a
  // slow reader is judged by what left them, not by when this writes again.
  if (KernelBytes() < kernel_bytes_) return ArmWriteTimer();
  if (phase_ == Phase::kBusy) return Cut("it reads nothing");
  Close();
}

size_t Connection::KernelBytes() {
  int bytes = 0;
  if (ioctl(socket_.native_handle(), SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<size_t>(bytes);
}

void Connection::Cut(absl::string_view reason) {
  if (phase_ == Phase::kClosed) return;
  std::string request_id;
  size_t unread = 0;
  {
    MutexLock lock(&mutex_);
    request_id = exchange_.request_id;
    unread = exchange_.pending.size() + exchange_.taken;
  }
  Log(LogLevel::kWarning, "http client disconnected in its answer",
      {{"reason", reason},
       {"path", path_},
       {"request_id", request_id},
       {"unread_bytes", unread}});
  Close();
}

void Connection::OnWritten(Error error, size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (error == boost::asio::error::operation_aborted) bytes = 0;
  if (error && error != boost::asio::error::operation_aborted) return Close();
  out_offset_ += bytes;
  if (out_offset_ < out_.size()) return WriteSome();
  writing_ = false;
  write_timer_.cancel();
  out_.clear();
  if (out_.capacity() > kKeptBytes) out_ = std::string();
  if (phase_ == Phase::kRejecting) return Linger();
  Flush();
}

void Connection::FinishExchange() {
  silence_timer_.cancel();
  // After a half-close only what was pipelined before it can still come.
  bool keep_alive = !half_closed_ || buffer_.size() > 0;
  {
    MutexLock lock(&mutex_);
    keep_alive = keep_alive && exchange_.keep_alive;
  }
  phase_ = Phase::kIdle;
  host_->OnBusy(false);
  if (keep_alive) {
    AwaitRequest();
  } else {
    Linger();
  }
}

void Connection::ArmSilenceTimer(absl::Duration delay) {
  if (phase_ != Phase::kBusy) return;
  silence_timer_.expires_after(absl::ToChronoNanoseconds(delay));
  silence_timer_.async_wait([self = shared_from_this()](Error error) {
    if (!error) self->OnSilenceTimer();
  });
}

void Connection::OnSilenceTimer() {
  std::function<void()> callback;
  absl::Duration delay;
  {
    MutexLock lock(&mutex_);
    if (!exchange_.active || !exchange_.on_silent) return;
    const absl::Duration silent = absl::Now() - exchange_.last_write;
    delay = exchange_.silent_period - silent;
    if (delay <= absl::ZeroDuration()) {
      delay = exchange_.silent_period;
      exchange_.last_write = absl::Now();
      callback = exchange_.on_silent;
    }
  }
  if (callback) callback();
  ArmSilenceTimer(delay);
}

}  // namespace baton::http
