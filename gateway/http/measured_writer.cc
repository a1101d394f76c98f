#include "gateway/http/measured_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::gateway {
namespace {

constexpr char kTotal[] = "baton_http_requests_total";
constexpr char kTotalHelp[] = "HTTP requests answered, by route and status";
constexpr char kDuration[] = "baton_http_request_duration_seconds";
constexpr char kDurationHelp[] = "Time from a request to the end of its answer";
// The client left before its answer was complete.
constexpr int kClientLeft = 499;

telemetry::Labels LabelsOf(const std::string& route, int code) {
  return {{"route", route}, {"code", absl::StrCat(code)}};
}

}  // namespace

void HttpMetrics::Declare(const std::string& route) {
  const telemetry::Labels labels = LabelsOf(route, 200);
  metrics_->GetCounter(kTotal, kTotalHelp, labels);
  metrics_->GetHistogram(kDuration, kDurationHelp, telemetry::RequestBuckets(),
                         labels);
}

void HttpMetrics::Count(const std::string& route, int code,
                        absl::Duration duration) {
  const telemetry::Labels labels = LabelsOf(route, code);
  metrics_->GetCounter(kTotal, kTotalHelp, labels)->Increment();
  metrics_
      ->GetHistogram(kDuration, kDurationHelp, telemetry::RequestBuckets(),
                     labels)
      ->Observe(absl::ToDoubleSeconds(duration));
}

MeasuredWriter::MeasuredWriter(std::shared_ptr<http::ResponseWriter> writer,
                               std::shared_ptr<HttpMetrics> metrics,
                               std::string route, std::string request_id)
    : writer_(std::move(writer)),
      metrics_(std::move(metrics)),
      route_(std::move(route)),
      start_(metrics_->clock().Monotonic()),
      request_id_(std::move(request_id)) {}

MeasuredWriter::~MeasuredWriter() { Count(kClientLeft); }

void MeasuredWriter::Send(http::Response response) {
  Stamp(&response);
  Count(response.status);
  writer_->Send(std::move(response));
}

void MeasuredWriter::Begin(http::Response head) {
  Stamp(&head);
  {
    MutexLock lock(&mutex_);
    code_ = head.status;
  }
  writer_->Begin(std::move(head));
}

bool MeasuredWriter::Write(absl::string_view bytes) {
  return writer_->Write(bytes);
}

void MeasuredWriter::Finish() {
  int code = 0;
  {
    MutexLock lock(&mutex_);
    code = code_;
  }
  Count(code);
  writer_->Finish();
}

void MeasuredWriter::OnClosed(std::function<void()> callback) {
  // Counted first: the cancelled generation answers too, and too late.
  writer_->OnClosed([self = weak_from_this(), callback = std::move(callback)] {
    if (auto writer = self.lock()) writer->Count(kClientLeft);
    callback();
  });
}

void MeasuredWriter::OnSilent(absl::Duration period,
                              std::function<void()> callback) {
  writer_->OnSilent(period, std::move(callback));
}

void MeasuredWriter::SetRequestId(std::string request_id) {
  MutexLock lock(&mutex_);
  request_id_ = std::move(request_id);
}

void MeasuredWriter::Stamp(http::Response* response) {
  MutexLock lock(&mutex_);
  response->headers.emplace_back("x-request-id", request_id_);
}

void MeasuredWriter::Count(int code) {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(counted_, true)) return;
  }
  metrics_->Count(route_, code, metrics_->clock().Monotonic() - start_);
}

}  // namespace baton::gateway
