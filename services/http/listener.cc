#include "services/http/listener.h"

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/random.h"
#include "services/base/status_macros.h"
#include "services/http/connection.h"
#include "services/http/response_head.h"

namespace baton::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

// How long to wait after a failed accept (no file descriptors left, mostly).
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

// The answer to a connection beyond the limit. It fits any fresh socket's
// send buffer, so that one write without waiting does.
std::string FullAnswer() {
  Response full =
      JsonError(503, "unavailable_error", "overloaded", "Too many connections");
  full.headers.emplace_back("retry-after", "1");
  full.headers.emplace_back("x-request-id", RandomName("req-"));
  HeadOptions head;
  head.keep_alive = false;
  return FormatHead(full, head) + full.body;
}

absl::StatusOr<tcp::endpoint> ParseAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an address of the form host:port: ", address));
  }
  std::string host = address.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  Error error;
  const asio::ip::address ip = asio::ip::make_address(host, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an IP address to listen on: ", address));
  }
  return tcp::endpoint(ip, static_cast<uint16_t>(port));
}

std::string FormatAddress(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6()
             ? absl::StrCat("[", host, "]:", endpoint.port())
             : absl::StrCat(host, ":", endpoint.port());
}

}  // namespace

// Outlives the listener for as long as a writer is held, so that a late call
// finds a mutex and a closed flag instead of freed memory.
struct Listener::Core final : public ConnectionHost,
                              public std::enable_shared_from_this<Core> {
  explicit Core(const Options& options)
      : options(options),
        acceptor_strand(asio::make_strand(io)),
        acceptor(acceptor_strand),
        accept_pause(acceptor_strand) {}

  absl::Status Open(const tcp::endpoint& endpoint);
  void Accept();
  void OnAccepted(Error error, tcp::socket socket);
  void Admit(tcp::socket socket);
  void StopAccepting();
  void CloseAll();

  bool Dispatch(Request request,
                std::shared_ptr<ResponseWriter> writer) override;
  void OnRejected(int status) override { handler->OnRejected(status); }
  void OnBusy(bool is_busy) override;
  void OnConnectionClosed(Connection* connection) override;
  bool stopping() const override { return stopping_flag.load(); }
  std::atomic<size_t>* buffered_bytes() override { return &buffered; }

  const Options options;
  asio::io_context io;
  asio::strand<asio::io_context::executor_type> acceptor_strand;
  tcp::acceptor acceptor;
  asio::steady_timer accept_pause;
  Handler* handler = nullptr;    // used on I/O and handler threads only
  Executor* executor = nullptr;  // used on I/O threads only
  std::atomic<bool> stopping_flag = false;
  std::atomic<size_t> buffered = 0;

  Mutex mutex;
  CondVar quiet;
  size_t busy ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<Connection*, std::shared_ptr<Connection>> connections
      ABSL_GUARDED_BY(mutex);
};

absl::Status Listener::Core::Open(const tcp::endpoint& endpoint) {
  Error error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", FormatAddress(endpoint), ": ", error.message()));
}

void Listener::Core::Accept() {
  acceptor.async_accept(
      asio::make_strand(io),
      asio::bind_executor(
          acceptor_strand,
          [self = shared_from_this()](Error error, tcp::socket socket) {
            self->OnAccepted(error, std::move(socket));
          }));
}

void Listener::Core::OnAccepted(Error error, tcp::socket socket) {
  if (stopping() || !acceptor.is_open()) return;
  if (error) {
    accept_pause.expires_after(absl::ToChronoNanoseconds(kAcceptPause));
    accept_pause.async_wait([self = shared_from_this()](Error aborted) {
      if (!aborted && self->acceptor.is_open()) self->Accept();
    });
    return;
  }
  Admit(std::move(socket));
  Accept();
}

void Listener::Core::Admit(tcp::socket socket) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(&mutex);
    // Under the lock that CloseAll takes: it sees every connection that
    // this lets in.
    if (stopping()) return;
    if (connections.size() < options.max_connections) {
      connection = std::make_shared<Connection>(
          std::move(socket), options.limits, shared_from_this());
      connections[connection.get()] = connection;
    }
  }
  if (connection != nullptr) {
    connection->Start();
  } else {
    OnRejected(503);
    Error ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(FullAnswer()), ignored);
    socket.shutdown(tcp::socket::shutdown_both, ignored);
  }
}

void Listener::Core::StopAccepting() {
  stopping_flag = true;
  asio::post(acceptor_strand, [self = shared_from_this()] {
    Error ignored;
    self->acceptor.close(ignored);
    self->accept_pause.cancel();
  });
}

void Listener::Core::CloseAll() {
  std::vector<std::shared_ptr<Connection>> open;
  {
    MutexLock lock(&mutex);
    for (const auto& [pointer, connection] : connections) {
      open.push_back(connection);
    }
  }
  for (const auto& connection : open) connection->RequestClose();
}

bool Listener::Core::Dispatch(Request request,
                              std::shared_ptr<ResponseWriter> writer) {
  auto shared = std::make_shared<Request>(std::move(request));
  return executor->Post(
      [handler = handler, shared, writer = std::move(writer)]() mutable {
        handler->OnRequest(std::move(*shared), std::move(writer));
      });
}

void Listener::Core::OnBusy(bool is_busy) {
  MutexLock lock(&mutex);
  busy += is_busy ? 1 : -1;
  if (busy == 0) quiet.SignalAll();
}

void Listener::Core::OnConnectionClosed(Connection* connection) {
  std::shared_ptr<Connection> removed;
  MutexLock lock(&mutex);
  auto found = connections.find(connection);
  if (found == connections.end()) return;
  removed = std::move(found->second);
  connections.erase(found);
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(
    const Options& options, Handler* handler) {
  BATON_ASSIGN_OR_RETURN(const tcp::endpoint endpoint,
                         ParseAddress(options.address));
  auto listener = std::unique_ptr<Listener>(new Listener());
  auto core = std::make_shared<Core>(options);
  BATON_RETURN_IF_ERROR(core->Open(endpoint));
  Error error;
  const tcp::endpoint bound = core->acceptor.local_endpoint(error);
  if (error) return absl::UnavailableError(error.message());
  listener->address_ = FormatAddress(bound);
  listener->port_ = bound.port();
  ThreadPoolExecutor::Options threads;
  threads.threads = options.handler_threads;
  threads.max_queued = options.max_connections;
  listener->handlers_ = std::make_unique<ThreadPoolExecutor>(threads);
  core->handler = handler;
  core->executor = listener->handlers_.get();
  core->Accept();
  listener->core_ = core;
  for (size_t i = 0; i < options.io_threads; ++i) {
    listener->io_threads_.emplace_back([core] { core->io.run(); });
  }
  return listener;
}

Listener::~Listener() { Stop(absl::ZeroDuration()); }

void Listener::Stop(absl::Duration grace) {
  if (core_ == nullptr || io_threads_.empty()) return;
  core_->StopAccepting();
  {
    MutexLock lock(&core_->mutex);
    const absl::Time end = absl::Now() + grace;
    while (core_->busy > 0 && absl::Now() < end) {
      core_->quiet.WaitWithTimeout(&core_->mutex, end - absl::Now());
    }
  }
  core_->CloseAll();
  // With the acceptor and all connections closed, run() has no work left.
  io_threads_.clear();
  handlers_.reset();
}

}  // namespace baton::http
