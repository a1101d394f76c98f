// A response writer that counts and times its exchange, and stamps the
// request id on whatever answer is given.
#ifndef BATON_GATEWAY_HTTP_MEASURED_WRITER_H_
#define BATON_GATEWAY_HTTP_MEASURED_WRITER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/base/mutex.h"
#include "services/http/message.h"
#include "services/telemetry/metrics.h"

namespace baton::gateway {

// baton_http_requests_total and baton_http_request_duration_seconds. Routes
// are templates ("/v1/models/{id}"), so that label values stay few.
// Thread-safe.
class HttpMetrics {
 public:
  // `metrics` must outlive this.
  HttpMetrics(telemetry::MetricsRegistry* metrics,
              std::shared_ptr<const Clock> clock)
      : metrics_(metrics), clock_(std::move(clock)) {}
  // Makes the route's series exist before its first request.
  void Declare(const std::string& route);
  void Count(const std::string& route, int code, absl::Duration duration);
  const Clock& clock() const { return *clock_; }

 private:
  telemetry::MetricsRegistry* const metrics_;
  const std::shared_ptr<const Clock> clock_;
};

// Counts once: at Send, at Finish with the code of Begin, or as 499 when the
// client left or the writer was dropped. Adds "x-request-id" unless the
// answer has it.
class MeasuredWriter final
    : public http::ResponseWriter,
      public std::enable_shared_from_this<MeasuredWriter> {
 public:
  MeasuredWriter(std::shared_ptr<http::ResponseWriter> writer,
                 std::shared_ptr<HttpMetrics> metrics, std::string route,
                 std::string request_id);
  ~MeasuredWriter() override;

  void Send(http::Response response) override;
  void Begin(http::Response head) override;
  bool Write(absl::string_view bytes) override;
  void Finish() override;
  void OnClosed(std::function<void()> callback) override;
  void OnSilent(absl::Duration period, std::function<void()> callback) override;

  // When the request had been read; monotonic.
  absl::Duration start() const { return start_; }
  // The id of answers from now on, once the request has got its own.
  void SetRequestId(std::string request_id);

 private:
  void Stamp(http::Response* response);
  void Count(int code);

  const std::shared_ptr<http::ResponseWriter> writer_;
  // Shared: a sink may hold this writer after the server has gone.
  const std::shared_ptr<HttpMetrics> metrics_;
  const std::string route_;
  const absl::Duration start_;  // monotonic
  Mutex mutex_;
  std::string request_id_ ABSL_GUARDED_BY(mutex_);
  int code_ ABSL_GUARDED_BY(mutex_) = 499;
  bool counted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::gateway

#endif  // BATON_GATEWAY_HTTP_MEASURED_WRITER_H_
