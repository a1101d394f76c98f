// A KV store behind a network that a test controls: forwards every call to a
// real store, and shows each chunk to a hook on its way.
#ifndef BATON_TESTS_SUPPORT_KVSTORE_PROXY_H_
#define BATON_TESTS_SUPPORT_KVSTORE_PROXY_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>

#include "baton/v1/kvstore.grpc.pb.h"

namespace baton::kvstore {

// Thread-safe as far as the hooks are; set them before the first call.
class KvStoreProxy final : public v1::KvStoreService::Service {
 public:
  explicit KvStoreProxy(std::shared_ptr<grpc::Channel> store)
      : stub_(v1::KvStoreService::NewStub(std::move(store))) {}

  // May change the chunk or wait; false loses it.
  std::function<bool(v1::WriteChunk*)> on_write_chunk;
  std::function<bool(v1::GetChunk*)> on_get_chunk;

  grpc::Status Lookup(grpc::ServerContext* context,
                      const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Lookup(onward.get(), *request, response);
  }
  grpc::Status Reserve(grpc::ServerContext* context,
                       const v1::ReserveRequest* request,
                       v1::ReserveResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Reserve(onward.get(), *request, response);
  }
  grpc::Status Commit(grpc::ServerContext* context,
                      const v1::CommitRequest* request,
                      v1::CommitResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Commit(onward.get(), *request, response);
  }
  grpc::Status Renew(grpc::ServerContext* context,
                     const v1::RenewRequest* request,
                     v1::RenewResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Renew(onward.get(), *request, response);
  }
  grpc::Status Release(grpc::ServerContext* context,
                       const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Release(onward.get(), *request, response);
  }
  grpc::Status Delete(grpc::ServerContext* context,
                      const v1::DeleteRequest* request,
                      v1::DeleteResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Delete(onward.get(), *request, response);
  }
  grpc::Status Stat(grpc::ServerContext* context,
                    const v1::StatRequest* request,
                    v1::StatResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    return stub_->Stat(onward.get(), *request, response);
  }
  grpc::Status Write(grpc::ServerContext* context,
                     grpc::ServerReader<v1::WriteChunk>* reader,
                     v1::WriteResponse* response) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    auto writer = stub_->Write(onward.get(), response);
    v1::WriteChunk chunk;
    bool open = true;
    while (open && reader->Read(&chunk)) {
      if (on_write_chunk && !on_write_chunk(&chunk)) continue;
      open = writer->Write(chunk);
    }
    if (open) writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GetRequest* request,
                   grpc::ServerWriter<v1::GetChunk>* writer) override {
    auto onward = grpc::ClientContext::FromServerContext(*context);
    auto reader = stub_->Get(onward.get(), *request);
    v1::GetChunk chunk;
    while (reader->Read(&chunk)) {
      if (on_get_chunk && !on_get_chunk(&chunk)) continue;
      if (!writer->Write(chunk)) onward->TryCancel();
    }
    return reader->Finish();
  }

 private:
  const std::unique_ptr<v1::KvStoreService::Stub> stub_;
};

}  // namespace baton::kvstore

#endif  // BATON_TESTS_SUPPORT_KVSTORE_PROXY_H_
