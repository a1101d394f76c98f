#include "services/rpc/call_metrics.h"

#include <chrono>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::rpc {
namespace {

constexpr double kBuckets[] = {.0005, .001, .0025, .005, .01, .025, .05, .1,
                               .25,   .5,   1,     2.5,  5,   10,   30,  120};

const char* CodeName(int code) {
  static constexpr const char* kNames[] = {"OK",
                                           "Canceled",
                                           "Unknown",
                                           "InvalidArgument",
                                           "DeadlineExceeded",
                                           "NotFound",
                                           "AlreadyExists",
                                           "PermissionDenied",
                                           "ResourceExhausted",
                                           "FailedPrecondition",
                                           "Aborted",
                                           "OutOfRange",
                                           "Unimplemented",
                                           "Internal",
                                           "Unavailable",
                                           "DataLoss",
                                           "Unauthenticated"};
  return code >= 0 && code <= 16 ? kNames[code] : "Unknown";
}

class CallMetrics final : public grpc::experimental::Interceptor {
 public:
  CallMetrics(absl::string_view method, telemetry::MetricsRegistry* metrics)
      : metrics_(metrics), start_(std::chrono::steady_clock::now()) {
    // "/baton.v1.PrefillService/Prefill"
    if (!method.empty() && method[0] == '/') method.remove_prefix(1);
    const size_t slash = method.find('/');
    service_ = std::string(method.substr(0, slash));
    method_ = slash == absl::string_view::npos
                  ? ""
                  : std::string(method.substr(slash + 1));
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* calls) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (calls->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS)) {
      const int code = calls->GetSendStatus().error_code();
      const double seconds = std::chrono::duration<double>(
                                 std::chrono::steady_clock::now() - start_)
                                 .count();
      metrics_
          ->GetCounter("baton_grpc_server_handled_total",
                       "gRPC calls completed, by code",
                       {{"grpc_service", service_},
                        {"grpc_method", method_},
                        {"grpc_code", CodeName(code)}})
          ->Increment();
      metrics_
          ->GetHistogram("baton_grpc_server_handling_seconds",
                         "Time from a call's start to its status", kBuckets,
                         {{"grpc_service", service_}, {"grpc_method", method_}})
          ->Observe(seconds);
    }
    calls->Proceed();
  }

 private:
  telemetry::MetricsRegistry* const metrics_;
  const std::chrono::steady_clock::time_point start_;
  std::string service_;
  std::string method_;
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(telemetry::MetricsRegistry* metrics) : metrics_(metrics) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CallMetrics(info->method(), metrics_);  // gRPC takes ownership
  }

 private:
  telemetry::MetricsRegistry* const metrics_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeCallMetricsInterceptor(telemetry::MetricsRegistry* metrics) {
  return std::make_unique<Factory>(metrics);
}

}  // namespace baton::rpc
