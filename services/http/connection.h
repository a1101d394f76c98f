// One client connection: reads a request, waits for its answer, writes it,
// and starts again while the client keeps the connection open.
//
//   idle → header → body → busy → idle …
//   header, body → rejecting → lingering → closed
//   busy → lingering → closed     (the answer ends the connection)
//   any → closed
//
// While busy a read stays pending, so that a client that leaves is noticed at
// once and its generation cancelled. Its end of stream alone does not say that
// it left: it may only have nothing more to send (shutdown(SHUT_WR)). So it is
// probed with bytes that mean nothing, a stream's ping or "100 Continue", which
// a closed peer answers with a reset: at once, and a second later for a peer
// behind a relay, which only finds out by the second write. HTTP/1.0 has no
// such bytes before its answer: there the end counts as leaving unless the
// answer begins within that second.
#ifndef BATON_SERVICES_HTTP_CONNECTION_H_
#define BATON_SERVICES_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "services/base/mutex.h"
#include "services/http/listener.h"
#include "services/http/message.h"

namespace baton::http {

class Connection;

// The listener, as its connections see it. All called on I/O threads.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  // Hands a request to the handler threads; false if they are full.
  virtual bool Dispatch(Request request,
                        std::shared_ptr<ResponseWriter> writer) = 0;
  virtual void OnRejected(int status) = 0;
  // A request is under way, or no longer.
  virtual void OnBusy(bool busy) = 0;
  virtual void OnConnectionClosed(Connection* connection) = 0;
  // True once connections are to end after the current answer.
  virtual bool stopping() const = 0;
  // Bytes that wait for clients, over all connections; from any thread.
  virtual std::atomic<size_t>* buffered_bytes() = 0;
};

// All of it runs on the strand of `socket`, but for the Exchange… functions,
// which are thread-safe.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  Connection(Socket socket, const Limits& limits,
             std::shared_ptr<ConnectionHost> host);

  void Start();
  // From any thread.
  void RequestClose();

  // For the writer of exchange `id`; calls about a past exchange do nothing.
  void ExchangeSend(uint64_t id, Response response);
  void ExchangeBegin(uint64_t id, Response head);
  bool ExchangeWrite(uint64_t id, absl::string_view bytes);
  void ExchangeFinish(uint64_t id);
  void ExchangeDropped(uint64_t id);
  void ExchangeOnClosed(uint64_t id, std::function<void()> callback);
  void ExchangeOnSilent(uint64_t id, absl::Duration period,
                        std::function<void()> callback);

 private:
  using Error = boost::beast::error_code;
  using Parser =
      boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class Phase {
    kIdle,
    kHeader,
    kBody,
    kBusy,
    kRejecting,
    kLingering,
    kClosed
  };
  struct Exchange {
    uint64_t id = 0;
    bool active = false;  // a request waits for its answer
    bool begun = false;
    bool answered = false;  // Send or Finish was called
    bool chunked = false;
    bool keep_alive = true;
    bool http_1_0 = false;
    bool head_only = false;
    bool gone = false;  // the connection is closed, for good
    bool overflow = false;
    std::string pending;     // formatted bytes, not yet taken by Flush
    size_t taken = 0;        // bytes of out_, all kept until all are written
    size_t counted = 0;      // of pending and taken, in buffered_bytes()
    std::string request_id;  // the client's; may be empty
    std::function<void()> on_closed;
    std::function<void()> on_silent;
    absl::Duration silent_period;
    absl::Time last_write;
  };

  void AwaitRequest();
  void Watch();
  void OnWatched(Error error, size_t bytes);
  void OnHalfClosed();
  void ProbePeer(bool last);
  void ReadHeader();
  void OnHeader(Error error, size_t bytes);
  void ReadBody();
  void OnBody(Error error);
  void OnReadError(Error error);
  void Dispatch();
  void Reject(int status, absl::string_view code, absl::string_view message);
  void Reject(Response response);
  std::string RequestId() const;
  void Flush();
  void WriteSome();
  void ArmWriteTimer();
  void OnWriteTimeout();
  // Bytes that the kernel holds until the peer takes them.
  size_t KernelBytes();
  void Cut(absl::string_view reason);
  void OnWritten(Error error, size_t bytes);
  void FinishExchange();
  void Linger();
  void Close();
  void ArmReadTimer(absl::Duration timeout);
  void OnReadTimeout();
  void ArmSilenceTimer(absl::Duration delay);
  void OnSilenceTimer();
  // Keeps buffered_bytes() true; returns the bytes that this one holds.
  size_t CountBytesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PostFlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The exchange's end: no more callbacks. Returns them to be destroyed
  // outside the lock.
  std::pair<std::function<void()>, std::function<void()>> EndLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CurrentLocked(uint64_t id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return exchange_.active && exchange_.id == id && !exchange_.gone;
  }

  const Limits limits_;
  const std::shared_ptr<ConnectionHost> host_;
  Socket socket_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;
  boost::asio::steady_timer silence_timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Phase phase_ = Phase::kIdle;
  bool reading_ = false;
  bool writing_ = false;
  bool half_closed_ = false;  // the peer sends nothing more
  uint64_t read_timer_round_ = 0;
  uint64_t lingered_bytes_ = 0;
  std::string out_;  // bytes being written
  size_t out_offset_ = 0;
  size_t kernel_bytes_ = 0;  // when the write timer was armed
  std::string path_;         // of the last request, for log lines

  Mutex mutex_;
  Exchange exchange_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::http

#endif  // BATON_SERVICES_HTTP_CONNECTION_H_
