// A channel's last owner is often a call's reactor, which ends on a thread of
// gRPC's own. Nothing else in this program may use gRPC, or the channel would
// not be the last to hold those threads.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "services/rpc/channel.h"

namespace baton::rpc {
namespace {

struct Call {
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  grpc::Slice nothing;
  grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

TEST(RpcChannelTest, MayEndOnACallbackThread) {
  for (int round = 0; round < 20; ++round) {
    std::promise<grpc::StatusCode> ended;
    auto* call = new Call;
    call->channel = MakeChannel("unix:/nonexistent/baton.sock");
    grpc::GenericStub(call->channel)
        .UnaryCall(&call->context, "/baton.None/None", grpc::StubOptions(),
                   &call->request, &call->response,
                   [&ended, call](const grpc::Status& status) {
                     delete call;
                     ended.set_value(status.error_code());
                   });
    EXPECT_EQ(ended.get_future().get(), grpc::StatusCode::UNAVAILABLE);
  }
}

}  // namespace
}  // namespace baton::rpc
