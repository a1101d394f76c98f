#include "gateway/registry/probe_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "baton/v1/discovery.grpc.pb.h"
#include "gateway/registry/registry_codec.h"
#include "services/base/mutex.h"
#include "services/rpc/grpc_status.h"

namespace baton::gateway {
namespace {

constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

// HealthCheckResponse{status: SERVING}: field 1, varint 1. The protocol's
// generated code is not shipped with the gRPC library.
bool SaysServing(const grpc::ByteBuffer& response) {
  grpc::Slice slice;
  if (!response.DumpToSingleSlice(&slice).ok()) return false;
  const absl::string_view bytes(reinterpret_cast<const char*>(slice.begin()),
                                slice.size());
  return absl::StartsWith(bytes, absl::string_view("\x08\x01", 2));
}

// One look: up to three calls at once; the last to end reports. Shared by its
// own callbacks.
class Look : public std::enable_shared_from_this<Look> {
 public:
  Look(std::shared_ptr<grpc::Channel> channel,
       std::function<void(ProbeResult)> done)
      : stub_(v1::DiscoveryService::NewStub(channel)),
        generic_(channel),
        done_(std::move(done)) {
    // No field set: the whole process. A buffer without a slice is no message.
    const grpc::Slice empty;
    health_request_ = grpc::ByteBuffer(&empty, 1);
  }

  void Run(bool want_facts, absl::Duration timeout) {
    const auto deadline = absl::ToChronoTime(absl::Now() + timeout);
    for (auto* context : {&info_context_, &load_context_, &health_context_}) {
      context->set_deadline(deadline);
    }
    pending_ = want_facts ? 3 : 2;
    auto self = shared_from_this();
    if (want_facts) {
      stub_->async()->GetServerInfo(
          &info_context_, &info_request_, &info_, [self](grpc::Status status) {
            self->OnCall(status, [&](ProbeResult* result) {
              if (IsWorkerRole(self->info_.role())) {
                result->facts = FactsFromProto(self->info_);
              } else {
                result->status =
                    absl::FailedPreconditionError("the server is no worker");
              }
            });
          });
    }
    stub_->async()->GetLoad(&load_context_, &load_request_, &load_,
                            [self](grpc::Status status) {
                              self->OnCall(status, [&](ProbeResult* result) {
                                result->load = LoadFromProto(self->load_);
                              });
                            });
    generic_.UnaryCall(&health_context_, kHealthCheck, grpc::StubOptions(),
                       &health_request_, &health_, [self](grpc::Status status) {
                         self->OnCall(status, [&](ProbeResult* result) {
                           result->serving = SaysServing(self->health_);
                         });
                       });
  }

 private:
  void OnCall(const grpc::Status& status,
              const std::function<void(ProbeResult*)>& use) {
    {
      MutexLock lock(&mutex_);
      if (!status.ok()) {
        result_.status = rpc::FromGrpcStatus(status);
      } else {
        use(&result_);
      }
      if (--pending_ > 0) return;
    }
    done_(std::move(result_));  // last: no other call touches it
  }

  const std::unique_ptr<v1::DiscoveryService::Stub> stub_;
  grpc::GenericStub generic_;
  const std::function<void(ProbeResult)> done_;
  grpc::ClientContext info_context_, load_context_, health_context_;
  v1::GetServerInfoRequest info_request_;
  v1::GetLoadRequest load_request_;
  grpc::ByteBuffer health_request_;
  v1::ServerInfo info_;
  v1::ServerLoad load_;
  grpc::ByteBuffer health_;

  Mutex mutex_;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;
  ProbeResult result_;  // guarded by mutex_ until pending_ is 0
};

}  // namespace

void GrpcWorkerProbe::Probe(const std::string& address, bool want_facts,
                            absl::Duration timeout,
                            std::function<void(ProbeResult)> done) {
  std::make_shared<Look>(channels_->Get(address), std::move(done))
      ->Run(want_facts, timeout);
}

}  // namespace baton::gateway
