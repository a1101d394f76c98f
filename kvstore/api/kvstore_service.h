// KvStoreService on the wire: checks and translates, then asks the index.
//
// Every call runs in the gRPC callback itself: the index only holds its lock
// for bookkeeping, and a chunk is at most kMaxChunkBytes to copy. A stream has
// one chunk in memory at a time, so that slow peers bound themselves.
#ifndef BATON_KVSTORE_API_KVSTORE_SERVICE_H_
#define BATON_KVSTORE_API_KVSTORE_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include "baton/v1/kvstore.grpc.pb.h"
#include "kvstore/api/operation_metrics.h"
#include "kvstore/index/object_index.h"
#include "services/base/clock.h"

namespace baton::kvstore {

// A look-up of more keys is refused: 64 Ki blocks of 64 tokens are four
// million tokens.
inline constexpr int kMaxLookupKeys = 65536;

class KvStoreService final : public v1::KvStoreService::CallbackService {
 public:
  // All must outlive the service.
  KvStoreService(ObjectIndex* index, const Clock* clock,
                 telemetry::MetricsRegistry* metrics);

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const v1::LookupRequest* request,
                                   v1::LookupResponse* response) override;
  grpc::ServerUnaryReactor* Reserve(grpc::CallbackServerContext* context,
                                    const v1::ReserveRequest* request,
                                    v1::ReserveResponse* response) override;
  grpc::ServerReadReactor<v1::WriteChunk>* Write(
      grpc::CallbackServerContext* context,
      v1::WriteResponse* response) override;
  grpc::ServerUnaryReactor* Commit(grpc::CallbackServerContext* context,
                                   const v1::CommitRequest* request,
                                   v1::CommitResponse* response) override;
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context,
                                  const v1::RenewRequest* request,
                                  v1::RenewResponse* response) override;
  grpc::ServerWriteReactor<v1::GetChunk>* Get(
      grpc::CallbackServerContext* context,
      const v1::GetRequest* request) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const v1::DeleteRequest* request,
                                   v1::DeleteResponse* response) override;
  grpc::ServerUnaryReactor* Stat(grpc::CallbackServerContext* context,
                                 const v1::StatRequest* request,
                                 v1::StatResponse* response) override;

 private:
  // Runs `work` now, counts and answers its status.
  template <typename Work>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   Operation operation, const Work& work);

  ObjectIndex* const index_;
  const Clock* const clock_;
  const OperationMetrics metrics_;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_API_KVSTORE_SERVICE_H_
