// One gRPC server as every Baton process runs it: health, reflection,
// keepalive, message limits, per-method metrics. Edge code only.
#ifndef BATON_SERVICES_RPC_SERVER_H_
#define BATON_SERVICES_RPC_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/telemetry/metrics.h"

namespace baton::rpc {

class Server {
 public:
  struct Options {
    // "host:port"; port 0 picks one. Loopback unless asked otherwise.
    std::string address = "127.0.0.1:0";
    bool reflection = true;
    int max_receive_bytes = 32 << 20;
  };

  // Starts to serve; health says NOT_SERVING until SetServing(true).
  // `services` must outlive the server. Errors: kUnavailable (cannot bind).
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Options& options, const std::vector<grpc::Service*>& services,
      telemetry::MetricsRegistry* metrics);
  ~Server();

  // "host:port" with the real port.
  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }
  // Names: "" and "readiness" follow this; "liveness" is always SERVING.
  void SetServing(bool serving);
  // Stops admission, waits for calls up to `grace`, then cancels them.
  // Idempotent.
  void Stop(absl::Duration grace);

 private:
  Server() = default;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  uint16_t port_ = 0;
};

}  // namespace baton::rpc

#endif  // BATON_SERVICES_RPC_SERVER_H_
