// A whole worker in this process, served over loopback, with a fake model and
// (if any) a fake store; and a client that speaks its services as a gateway
// does.
#ifndef BATON_TESTS_INTEGRATION_WORKER_NODE_H_
#define BATON_TESTS_INTEGRATION_WORKER_NODE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "baton/v1/admin.grpc.pb.h"
#include "baton/v1/decode.grpc.pb.h"
#include "baton/v1/discovery.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "baton/v1/prefill.grpc.pb.h"
#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/mutex.h"
#include "services/rpc/channel.h"
#include "services/rpc/server.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/fake_model.h"
#include "worker/api/admin_service.h"
#include "worker/api/discovery_service.h"
#include "worker/api/model_service.h"
#include "worker/api/worker_runtime.h"
#include "worker/decode/decode_service.h"
#include "worker/prefill/prefill_service.h"

namespace baton::worker {

// True if `holds` becomes true within `limit`; looks once a `pace`.
inline bool Eventually(const std::function<bool()>& holds,
                       absl::Duration limit = absl::Seconds(10),
                       absl::Duration pace = absl::Milliseconds(2)) {
  Mutex mutex;
  CondVar never;
  const absl::Time end = absl::Now() + limit;
  while (!holds()) {
    if (absl::Now() > end) return false;
    MutexLock lock(&mutex);
    never.WaitWithTimeout(&mutex, pace);
  }
  return true;
}

class WorkerNode {
 public:
  struct Options {
    kvstore::KvStoreClient* store = nullptr;
    std::string numerics_id = "fake-1";
    uint32_t max_sequences = 16;
    uint64_t blocks = 128;
    uint32_t max_batch_tokens = 48;  // chunk edges inside blocks
    absl::Duration reservation_ttl = absl::Minutes(10);
    // A store that failed is tried again at once, so tests do not wait.
    absl::Duration store_pause;
    std::function<void(const StepBatch&)> on_run;
    bool open = true;
  };

  explicit WorkerNode(const Options& options)
      : options_(options),
        model_(options.numerics_id),
        table_({options.max_sequences, options.reservation_ttl}, &clock_,
               &timers_),
        discovery_({v1::SERVER_ROLE_ANY, "test", Epoch(11),
                    options.max_sequences, [this] { return table_.size(); }},
                   &gate_),
        admin_(&gate_, &clock_, &timers_, [this] { drained_ = true; }) {
    model_.on_run = options.on_run;
    server_ = *rpc::Server::Start(
        {}, {&prefill_, &decode_, &discovery_, &models_, &admin_},
        metrics_.get());
    channel_ = rpc::MakeChannel(server_->address());
    // A first connection on a busy machine may take longer than a call waits.
    channel_->WaitForConnected(std::chrono::system_clock::now() +
                               std::chrono::seconds(20));
    if (options.open) Open();
  }

  ~WorkerNode() {
    server_->Stop(absl::Seconds(5));
    if (runtime_ != nullptr) runtime_->Stop();
  }

  void Open() {
    WorkerRuntime::Options runtime;
    runtime.kv_memory_bytes = options_.blocks * FakeModel::kBlockBytes;
    runtime.max_sequences = options_.max_sequences;
    runtime.max_batch_tokens = options_.max_batch_tokens;
    runtime.store_pause = options_.store_pause;
    runtime.lease_ttl = absl::Seconds(3);
    runtime.epoch = Epoch(11);
    runtime_ = *WorkerRuntime::Create(runtime, &model_, options_.store, &clock_,
                                      metrics_.get());
    gate_.Open(&runtime_->context());
  }

  // Nothing is reserved, running, held or leased.
  bool AtRest() const {
    const WorkerContext& context = runtime_->context();
    const EngineLoad load = context.engine->Load();
    return table_.size() == 0 && gate_.inside() == 0 &&
           load.running + load.waiting == 0 &&
           context.pool->Stats().held == 0 &&
           (context.leases == nullptr || context.leases->held() == 0);
  }

  // The value of one series in the exposition; -1 if there is none.
  double Metric(const std::string& series) const {
    const std::string text = metrics_->Exposition();
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return -1;
    return std::stod(text.substr(at + series.size() + 2));
  }
  double Prompt(const std::string& source) const {
    return Metric("baton_prompt_tokens_total{model_name=\"fake\",source=\"" +
                  source + "\"}");
  }
  double Fallbacks(const std::string& reason) const {
    return Metric(
        "baton_handoff_fallbacks_total{model_name=\"fake\",reason=\"" + reason +
        "\"}");
  }

  const WorkerContext& context() const { return runtime_->context(); }
  ReservationTable& table() { return table_; }
  AdmissionGate& gate() { return gate_; }
  bool drained() const { return drained_; }
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

 private:
  const Options options_;
  SystemClock clock_;
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("worker");
  FakeModel model_;
  std::unique_ptr<WorkerRuntime> runtime_;
  AdmissionGate gate_;
  ThreadPoolExecutor timers_{ThreadPoolExecutor::Options{1}};
  std::atomic<bool> drained_ = false;
  ReservationTable table_;
  PrefillService prefill_{&gate_};
  DecodeService decode_{&gate_, &table_};
  DiscoveryService discovery_;
  ModelService models_{&gate_};
  AdminService admin_;
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// A handoff id is used once: a store knows its lease by it.
inline std::string UniqueHandoff() {
  static std::atomic<int> last = 0;
  return "handoff-" + std::to_string(++last);
}

// What a caller asks for.
struct Ask {
  std::vector<TokenId> prompt;
  v1::SamplingParams sampling;
  v1::StopConditions stop;
  std::string handoff;  // empty = the worker draws one
  std::string salt;
  std::string fingerprint;
};

struct PrefillResult {
  grpc::Status status;
  std::optional<v1::FirstToken> first;
  std::optional<v1::HandoffManifest> manifest;
};

inline v1::PrefillRequest ToPrefillRequest(const Ask& ask) {
  v1::PrefillRequest request;
  request.set_request_id("request-1");
  request.set_handoff_id(ask.handoff);
  request.mutable_token_ids()->Add(ask.prompt.begin(), ask.prompt.end());
  *request.mutable_sampling() = ask.sampling;
  *request.mutable_stop() = ask.stop;
  request.set_cache_salt(ask.salt);
  request.set_layout_fingerprint(ask.fingerprint);
  return request;
}

inline PrefillResult Prefill(const WorkerNode& node, const Ask& ask) {
  auto stub = v1::PrefillService::NewStub(node.channel());
  grpc::ClientContext context;
  auto reader = stub->Prefill(&context, ToPrefillRequest(ask));
  PrefillResult result;
  v1::PrefillEvent event;
  while (reader->Read(&event)) {
    if (event.has_first_token()) result.first = event.first_token();
    if (event.has_manifest()) result.manifest = event.manifest();
  }
  result.status = reader->Finish();
  return result;
}

// One decode stream, read step by step.
class DecodeStream {
 public:
  explicit DecodeStream(const WorkerNode& node)
      : stub_(v1::DecodeService::NewStub(node.channel())),
        stream_(stub_->Decode(&context_)) {}

  bool Reserve(const Ask& ask) {
    v1::DecodeRequest request;
    v1::DecodeReserve* reserve = request.mutable_reserve();
    reserve->set_request_id("request-1");
    reserve->set_handoff_id(ask.handoff);
    reserve->mutable_token_ids()->Add(ask.prompt.begin(), ask.prompt.end());
    *reserve->mutable_sampling() = ask.sampling;
    *reserve->mutable_stop() = ask.stop;
    reserve->set_cache_salt(ask.salt);
    v1::DecodeEvent event;
    if (!stream_->Write(request) || !stream_->Read(&event)) return false;
    reserved = event.reserved();
    return event.has_reserved();
  }
  void Start(const std::vector<TokenId>& committed,
             const std::optional<v1::HandoffManifest>& manifest) {
    v1::DecodeRequest request;
    v1::DecodeStart* start = request.mutable_start();
    start->mutable_committed_token_ids()->Add(committed.begin(),
                                              committed.end());
    if (manifest.has_value()) *start->mutable_manifest() = *manifest;
    stream_->Write(request);
  }
  void SendCancel() {
    v1::DecodeRequest request;
    request.mutable_cancel();
    stream_->Write(request);
  }
  // Until `count` tokens or the end.
  void ReadTokens(size_t count) {
    v1::DecodeEvent event;
    while (tokens.size() < count && stream_->Read(&event)) Note(event);
  }
  grpc::Status Finish() {
    v1::DecodeEvent event;
    while (stream_->Read(&event)) Note(event);
    return stream_->Finish();
  }
  grpc::ClientContext& context() { return context_; }
  grpc::ClientReaderWriter<v1::DecodeRequest, v1::DecodeEvent>& raw() {
    return *stream_;
  }

  v1::DecodeReserved reserved;
  std::optional<v1::DecodeStarted> started;
  std::optional<v1::DecodeFinished> finished;
  std::vector<TokenId> tokens;
  std::vector<uint32_t> positions;

 private:
  void Note(const v1::DecodeEvent& event) {
    if (event.has_started()) started = event.started();
    if (event.has_finished()) finished = event.finished();
    for (const v1::CommittedToken& token : event.tokens().tokens()) {
      tokens.push_back(token.token_id());
      positions.push_back(token.position());
    }
  }

  grpc::ClientContext context_;
  std::unique_ptr<v1::DecodeService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::DecodeRequest, v1::DecodeEvent>>
      stream_;
};

}  // namespace baton::worker

#endif  // BATON_TESTS_INTEGRATION_WORKER_NODE_H_
