#include "services/rpc/grpc_runtime.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "absl/synchronization/mutex.h"

namespace baton::rpc {
namespace {

// Debian builds Abseil without NDEBUG, so that each lock that gRPC takes is
// entered in one graph, under one lock of the process, to look for cycles;
// it shows in profiles. Baton's own locks are not in it.
void SkipLockCycleDetection() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

struct Call {
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  grpc::Slice nothing;
  grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

// Callbacks run on threads that the last channel or server to use them joins
// as it ends. gRPC before 1.54 does not notice that one of these threads is
// joining itself, and goes on with a queue that it has freed; later ones
// abort. So one channel that uses them is never given up. A channel takes
// hold of the threads with its first call; this one ends at once.
void KeepCallbackThreads() {
  auto* call = new Call;
  call->channel = grpc::CreateChannel("unix-abstract:baton-nobody",
                                      grpc::InsecureChannelCredentials());
  // Also where a leak checker finds it.
  [[gnu::used]] static const auto* const kept =
      new std::shared_ptr<grpc::Channel>(call->channel);
  call->context.set_deadline(std::chrono::system_clock::time_point());
  grpc::GenericStub(call->channel)
      .UnaryCall(&call->context, "/baton.Nobody/Nothing", grpc::StubOptions(),
                 &call->request, &call->response,
                 [call](const grpc::Status&) { delete call; });
}

}  // namespace

void PrepareGrpc() {
  static const bool prepared = [] {
    SkipLockCycleDetection();
    KeepCallbackThreads();
    return true;
  }();
  (void)prepared;
}

}  // namespace baton::rpc
