// The gateway's gRPC path end to end: a client's call, admission, routing, the
// flow, real gRPC to workers that make their answers up.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "baton/v1/completion.grpc.pb.h"
#include "gateway/api/completion_service.h"
#include "gateway/flow/flow_generator.h"
#include "gateway/flow/grpc_decode_client.h"
#include "gateway/flow/grpc_prefill_client.h"
#include "gateway/registry/probe_client.h"
#include "gateway/registry/worker_poller.h"
#include "services/rpc/channel.h"
#include "services/rpc/server.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/fake_worker.h"

namespace baton::gateway {
namespace {

using testing_support::FakeBehaviour;
using testing_support::FakeTokenizer;
using testing_support::FakeWorker;

constexpr char kPrompt[] = "hello";
constexpr char kWhole[] = "abcdefghi";  // nine letters and the end token

class FixedModel final : public ModelSource {
 public:
  FixedModel() {
    auto model = std::make_shared<ServedModel>();
    model->name = "fake";
    model->context_length = 1000;
    model->tokenizer = std::make_shared<FakeTokenizer>();
    model_ = model;
  }
  std::shared_ptr<const ServedModel> Current() const override { return model_; }
  absl::Status Problem() const override { return absl::OkStatus(); }

 private:
  std::shared_ptr<const ServedModel> model_;
};

struct Answer {
  grpc::Status status;
  std::string text;
  v1::GenerationEnd end;
  std::string retry_after_ms;
  std::string reason;
};

class GatewayFlowTest : public ::testing::Test {
 protected:
  explicit GatewayFlowTest(AdmissionQueue::Options queue = {1, 0})
      : gate_(queue, &clock_, metrics_.get()) {}

  void SetUp() override {
    FlowEnvironment environment;
    environment.registry = &registry_;
    environment.gate = &gate_;
    environment.prefill = &prefill_client_;
    environment.decode = &decode_client_;
    environment.router = &router_;
    environment.clock = &clock_;
    environment.executor = &executor_;
    generator_ = std::make_unique<FlowGenerator>(
        FlowGenerator::Options{}, environment, metrics_.get(), [this] {
          return FlowText{"fake", model_.Current()->tokenizer};
        });
    front_ = std::make_unique<CompletionFront>(ApiEnvironment{
        generator_.get(), &builder_, &model_, &executor_, &clock_});
    auto server = rpc::Server::Start({}, {front_.get()}, metrics_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ =
        v1::CompletionService::NewStub(rpc::MakeChannel(server_->address()));
  }

  void TearDown() override {
    generator_->CancelAll();
    EXPECT_EQ(generator_->AwaitIdle(absl::Seconds(10)), 0u);
    server_->Stop(absl::Seconds(1));
    if (poller_ != nullptr) poller_->Stop();
    executor_.Stop();
  }

  FakeWorker* Add(v1::ServerRole role) {
    workers_.push_back(std::make_unique<FakeWorker>(role, workers_.size() + 1));
    registry_.AddStatic(workers_.back()->address());
    return workers_.back().get();
  }

  // Polls until all workers are ready.
  void Connect() {
    poller_ = WorkerPoller::Create({absl::Milliseconds(50), absl::Seconds(5)},
                                   &registry_, &probe_, &executor_, nullptr);
    poller_->Start();
    ASSERT_TRUE(Await([&] {
      for (const auto& worker : registry_.Snapshot()->workers) {
        if (!worker.ready) return false;
      }
      return true;
    }));
  }

  // Waits, without a fixed sleep, until `condition` holds.
  bool Await(const std::function<bool()>& condition) {
    const absl::Duration until = clock_.Monotonic() + absl::Seconds(20);
    MutexLock lock(&mutex_);
    while (!condition()) {
      if (clock_.Monotonic() > until) return false;
      tick_.WaitWithTimeout(&mutex_, absl::Milliseconds(5));
    }
    return true;
  }

  Answer Complete(grpc::ClientContext* context,
                  const std::function<void(const Answer&)>& on_text = {},
                  const char* prompt = kPrompt) {
    v1::CompletionRequest request;
    request.set_text(prompt);
    request.mutable_sampling()->set_temperature(0);
    auto stream = stub_->StreamCompletion(context, request);
    Answer answer;
    v1::GenerationEvent event;
    uint32_t position = static_cast<uint32_t>(std::strlen(prompt)) + 1;  // BOS
    while (stream->Read(&event)) {
      if (event.has_delta()) {
        answer.text += event.delta().text();
        for (const auto& token : event.delta().tokens()) {
          EXPECT_EQ(token.position(), position++);
        }
        if (on_text) on_text(answer);
      } else if (event.has_end()) {
        answer.end = event.end();
      }
    }
    answer.status = stream->Finish();
    for (const auto& [key, value] : context->GetServerTrailingMetadata()) {
      const std::string text(value.data(), value.size());
      if (key == "retry-after-ms") answer.retry_after_ms = text;
      if (key == "baton-reason") answer.reason = text;
    }
    return answer;
  }
  // Of all phases and reasons.
  double Retries() {
    double sum = 0;
    const std::string exposition = metrics_->Exposition();
    for (absl::string_view line : absl::StrSplit(exposition, '\n')) {
      double value = 0;
      if (absl::StartsWith(line, "baton_request_retries_total{") &&
          absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
        sum += value;
      }
    }
    return sum;
  }
  Answer Complete() {
    grpc::ClientContext context;
    return Complete(&context);
  }
  void ExpectWhole(const Answer& answer) {
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.text, kWhole);
    EXPECT_EQ(answer.end.usage().completion_tokens(), 10u);
    EXPECT_EQ(answer.end.usage().prompt_tokens(), 6u);
    EXPECT_EQ(answer.end.finish_reason(), v1::FINISH_REASON_STOP);
  }

  SystemClock clock_;
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("gateway");
  Mutex mutex_;
  CondVar tick_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
  ChannelCache channels_;
  WorkerRegistry registry_{{}, &clock_, metrics_.get()};
  GrpcWorkerProbe probe_{&channels_};
  GrpcPrefillClient prefill_client_{&channels_, &clock_};
  GrpcDecodeClient decode_client_{&channels_, &clock_};
  AdmissionGate gate_;
  const Router router_{{}};
  FixedModel model_;
  RequestBuilder builder_{{}, &model_, &clock_};
  std::shared_ptr<WorkerPoller> poller_;
  std::unique_ptr<FlowGenerator> generator_;
  std::unique_ptr<CompletionFront> front_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::CompletionService::Stub> stub_;
  ThreadPoolExecutor executor_{{2, 4096}};  // last: its tasks use the rest
};

TEST_F(GatewayFlowTest, PrefillAndDecodeApartGiveTheAnswer) {
  FakeWorker* prefill = Add(v1::SERVER_ROLE_PREFILL);
  FakeWorker* decode = Add(v1::SERVER_ROLE_DECODE);
  Connect();
  const Answer answer = Complete();
  ExpectWhole(answer);
  EXPECT_EQ(prefill->prefills(), 1);
  ASSERT_EQ(decode->starts().size(), 1u);
  const v1::DecodeStart start = decode->starts()[0];
  EXPECT_FALSE(start.manifest().handoff_id().empty());
  ASSERT_EQ(start.committed_token_ids_size(), 1);
  EXPECT_EQ(start.committed_token_ids(0), 'a');
  EXPECT_EQ(answer.end.cluster().prefill_worker(), prefill->address());
  EXPECT_EQ(answer.end.cluster().decode_worker(), decode->address());
  EXPECT_EQ(answer.end.timings().prompt_n(), 6u);
  EXPECT_NE(metrics_->Exposition().find("baton_requests_total{api=\"grpc\","
                                        "model_name=\"fake\",outcome=\"ok\"} "
                                        "1"),
            std::string::npos);
}

TEST_F(GatewayFlowTest, UnaryGivesTheSame) {
  Add(v1::SERVER_ROLE_ANY);
  Connect();
  v1::CompletionRequest request;
  request.set_text("hello");
  v1::GenerationResponse response;
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "mine");
  const auto status = stub_->CreateCompletion(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.text(), kWhole);
  EXPECT_EQ(response.tokens_size(), 10);
  EXPECT_EQ(response.id(), "mine");
  EXPECT_NE(response.seed(), 0u);
}

TEST_F(GatewayFlowTest, DeadPrefillWorkerIsInvisible) {
  FakeWorker* prefill = Add(v1::SERVER_ROLE_PREFILL);
  Add(v1::SERVER_ROLE_DECODE);
  FakeBehaviour behaviour;
  behaviour.fail_before_first =
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "down");
  prefill->Set(behaviour);
  Connect();
  ExpectWhole(Complete());
  behaviour = {};
  behaviour.fail_after_first = grpc::Status(grpc::StatusCode::INTERNAL, "down");
  prefill->Set(behaviour);
  Connect();
  ExpectWhole(Complete());
  EXPECT_GE(prefill->prefills(), 1);
}

TEST_F(GatewayFlowTest, DeadDecodeWorkerLeavesNoSeam) {
  FakeWorker* first = Add(v1::SERVER_ROLE_DECODE);
  FakeWorker* second = Add(v1::SERVER_ROLE_DECODE);
  FakeBehaviour behaviour;
  behaviour.break_after = 4;
  // The router prefers the lower id, whichever of the two that is.
  FakeWorker* preferred = first->address() < second->address() ? first : second;
  FakeWorker* other = preferred == first ? second : first;
  preferred->Set(behaviour);
  Connect();
  const Answer answer = Complete();
  ExpectWhole(answer);
  EXPECT_EQ(answer.end.cluster().resumes(), 1u);
  EXPECT_EQ(answer.end.cluster().decode_worker(), other->address());
  ASSERT_EQ(other->starts().size(), 1u);
  EXPECT_EQ(other->starts()[0].committed_token_ids_size(), 4);
}

TEST_F(GatewayFlowTest, KilledDecodeProcessLeavesNoSeam) {
  FakeWorker* first = Add(v1::SERVER_ROLE_DECODE);
  FakeWorker* second = Add(v1::SERVER_ROLE_DECODE);
  FakeBehaviour behaviour;
  behaviour.hang_after = 3;
  FakeWorker* preferred = first->address() < second->address() ? first : second;
  preferred->Set(behaviour);
  Connect();
  grpc::ClientContext context;
  bool killed = false;
  const Answer answer = Complete(&context, [&](const Answer& so_far) {
    if (killed || so_far.text.size() < 3) return;
    killed = true;
    preferred->Kill();
  });
  EXPECT_TRUE(killed);
  ExpectWhole(answer);
}

TEST_F(GatewayFlowTest, ClientThatLeavesFreesTheWorker) {
  FakeWorker* worker = Add(v1::SERVER_ROLE_ANY);
  FakeBehaviour behaviour;
  behaviour.hang_after = 2;
  worker->Set(behaviour);
  Connect();
  grpc::ClientContext context;
  const Answer answer = Complete(&context, [&](const Answer& so_far) {
    if (so_far.text.size() == 2) context.TryCancel();
  });
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Await([&] { return worker->open_calls() == 0; }));
  EXPECT_EQ(generator_->AwaitIdle(absl::Seconds(10)), 0u);
  EXPECT_EQ(registry_.Snapshot()->workers[0].inflight, 0u);
}

TEST_F(GatewayFlowTest, DeadlineFreesTheWorker) {
  FakeWorker* worker = Add(v1::SERVER_ROLE_ANY);
  FakeBehaviour behaviour;
  behaviour.hang_after = 2;
  worker->Set(behaviour);
  Connect();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
  const Answer answer = Complete(&context);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Await([&] { return worker->open_calls() == 0; }));
}

class CrowdedGatewayTest : public GatewayFlowTest {
 protected:
  CrowdedGatewayTest() : GatewayFlowTest({64, 64}) {}
};

// Both workers stay ready for everybody else, whatever the moment at which the
// deadlines strike. Nothing probes while the clients run, so that a worker
// suspected even once would stay lost.
TEST_F(CrowdedGatewayTest, ExpiredDeadlinesTakeNoWorkerFromOthers) {
  Add(v1::SERVER_ROLE_PREFILL);
  FakeWorker* decode = Add(v1::SERVER_ROLE_DECODE);
  FakeBehaviour behaviour;
  behaviour.hang_after = 1;
  behaviour.hang_prompt = 4;  // "bye" and BOS
  decode->Set(behaviour);
  Connect();
  poller_->Stop();
  std::atomic<bool> stop{false};
  std::atomic<int> answers{0};
  std::jthread victim([&] {
    while (!stop) {
      ExpectWhole(Complete());
      ++answers;
    }
  });
  {
    std::vector<std::jthread> clients;
    for (int client = 0; client < 6; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < 25; ++i) {
          grpc::ClientContext context;
          const auto timeout =
              absl::Microseconds(300 + 1700 * i + 211 * client);
          context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
          EXPECT_EQ(Complete(&context, {}, "bye").status.error_code(),
                    grpc::StatusCode::DEADLINE_EXCEEDED);
        }
      });
    }
  }
  EXPECT_TRUE(Await([&] { return answers > 0; }));
  stop = true;
  victim.join();
  for (const WorkerSnapshot& worker : registry_.Snapshot()->workers) {
    EXPECT_TRUE(worker.ready) << worker.address << " " << worker.state;
  }
  EXPECT_EQ(Retries(), 0);
  EXPECT_TRUE(Await([&] { return decode->open_calls() == 0; }));
}

TEST_F(GatewayFlowTest, FullQueueIsRefusedWithAHint) {
  FakeWorker* worker = Add(v1::SERVER_ROLE_ANY);
  FakeBehaviour behaviour;
  behaviour.hang_after = 2;
  worker->Set(behaviour);
  Connect();
  grpc::ClientContext context;
  Answer refused;
  Complete(&context, [&](const Answer& so_far) {
    if (so_far.text.size() != 2) return;
    refused = Complete();
    context.TryCancel();
  });
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason, "queue_full");
  EXPECT_EQ(refused.retry_after_ms, "1000");
}

TEST_F(GatewayFlowTest, ServerThatIsNoWorkerFailsItsProbe) {
  for (const auto role : {v1::SERVER_ROLE_GATEWAY, v1::SERVER_ROLE_KVSTORE,
                          v1::SERVER_ROLE_UNSPECIFIED}) {
    const FakeWorker server(role, 1);
    std::promise<absl::Status> status;
    probe_.Probe(server.address(), true, absl::Seconds(10),
                 [&](ProbeResult result) { status.set_value(result.status); });
    EXPECT_TRUE(absl::IsFailedPrecondition(status.get_future().get()));
  }
}

TEST(ChannelCacheTest, KeepsTheLastUsedChannelsOnly) {
  ChannelCache channels;
  const auto used = channels.Get("127.0.0.1:1");
  const auto unused = channels.Get("127.0.0.1:2");
  for (size_t i = 0; i < 2 * ChannelCache::kMaxChannels; ++i) {
    channels.Get(absl::StrCat("127.0.0.2:", i + 1));
    ASSERT_EQ(channels.Get("127.0.0.1:1"), used);
  }
  EXPECT_EQ(channels.size(), ChannelCache::kMaxChannels);
  EXPECT_NE(channels.Get("127.0.0.1:2"), unused);
}

TEST_F(GatewayFlowTest, WithoutWorkersTheAnswerSaysSo) {
  const Answer answer = Complete();
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(answer.reason, "no_worker");
  EXPECT_FALSE(answer.retry_after_ms.empty());
}

}  // namespace
}  // namespace baton::gateway
