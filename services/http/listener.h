// An HTTP/1.1 listener: threads, connections, limits. Every wait on a client
// has an end: headers, body, idle time, and each write.
#ifndef BATON_SERVICES_HTTP_LISTENER_H_
#define BATON_SERVICES_HTTP_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/executor.h"
#include "services/http/message.h"

namespace baton::http {

struct Limits {
  uint32_t max_header_bytes = 16 << 10;  // beyond: 431
  uint64_t max_body_bytes = 32 << 20;    // beyond: 413
  // Bytes of one stream that its client has not read; beyond: disconnected.
  // A whole answer fits, so that slow reading alone loses nothing.
  size_t max_stream_buffer_bytes = 64 << 20;
  // Of all connections; beyond, streams with more than fair_buffer_bytes
  // unread are disconnected as they grow.
  size_t max_total_buffer_bytes = 1 << 30;
  size_t fair_buffer_bytes = 1 << 20;
  absl::Duration header_timeout = absl::Seconds(10);  // whole header: 408
  absl::Duration body_timeout = absl::Seconds(60);    // whole body: 408
  absl::Duration idle_timeout = absl::Seconds(75);    // between requests
  absl::Duration write_timeout = absl::Seconds(60);  // nothing read by the peer
};

// Thread-safe, but for Stop: one thread at a time.
class Listener {
 public:
  struct Options {
    // "host:port"; an IP address ("[::1]:80") or localhost; port 0 picks one.
    std::string address = "127.0.0.1:0";
    size_t io_threads = 1;
    size_t handler_threads = 2;
    // Further connections are answered 503 and closed.
    size_t max_connections = 1024;
    Limits limits;
  };

  // `handler` must outlive the listener. Errors: kInvalidArgument (address),
  // kUnavailable (cannot bind).
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const Options& options,
                                                         Handler* handler);
  // Stops without grace.
  ~Listener();

  // "host:port" with the real port.
  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }

  // Accepts nothing more, lets running exchanges end for up to `grace`, then
  // closes all connections (OnClosed runs) and joins. Idempotent; not to be
  // called from a handler.
  void Stop(absl::Duration grace);

 private:
  struct Core;
  Listener() = default;

  std::string address_;
  uint16_t port_ = 0;
  // Shared with connections: a writer may outlive the listener.
  std::shared_ptr<Core> core_;
  std::unique_ptr<ThreadPoolExecutor> handlers_;
  std::vector<std::jthread> io_threads_;
};

}  // namespace baton::http

#endif  // BATON_SERVICES_HTTP_LISTENER_H_
