// Whoever leaves, and whenever: reservations, KV blocks, sequences and leases
// are back at once, and the stream has one terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/worker_node.h"
#include "tests/support/fake_kvstore.h"

namespace baton::worker {
namespace {

using grpc::StatusCode;

// Stops the engine's passes while closed. Thread-safe.
class StepGate {
 public:
  void Close() {
    MutexLock lock(&mutex_);
    closed_ = true;
  }
  void Open() {
    MutexLock lock(&mutex_);
    closed_ = false;
    changed_.SignalAll();
  }
  // One pass more, though closed.
  void Allow() {
    MutexLock lock(&mutex_);
    ++allowed_;
    changed_.SignalAll();
  }
  void Pass() {
    MutexLock lock(&mutex_);
    ++waiting_;
    changed_.SignalAll();
    while (closed_ && allowed_ == 0) changed_.Wait(&mutex_);
    if (closed_) --allowed_;
    --waiting_;
  }
  void AwaitWaiting() {
    MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int allowed_ ABSL_GUARDED_BY(mutex_) = 0;
};

Ask Plain(uint32_t prompt_tokens, uint32_t max_tokens = 500) {
  Ask ask;
  ask.handoff = UniqueHandoff();
  for (uint32_t i = 0; i < prompt_tokens; ++i) {
    ask.prompt.push_back(static_cast<TokenId>(3 + i * 7 % 290));
  }
  ask.sampling.set_temperature(0);
  ask.stop.set_max_tokens(max_tokens);
  ask.stop.set_ignore_eos(true);
  return ask;
}

class WorkerReleaseTest : public ::testing::Test {
 protected:
  WorkerNode::Options MakeOptions() {
    WorkerNode::Options options;
    options.store = &store_;
    options.max_sequences = 4;
    options.on_run = [this](const StepBatch&) { steps_.Pass(); };
    return options;
  }
  bool AtRest() {
    return Eventually([&] { return node_.AtRest() && store_.leases() == 0; });
  }
  // As AtRest, while the engine may do one step every 100 ms: a request that
  // was not cancelled would need far longer, and a cancel that is on its way
  // has time to arrive.
  bool AtRestWithoutFinishing() {
    return Eventually(
        [&] {
          if (node_.AtRest() && store_.leases() == 0) return true;
          steps_.Allow();
          return false;
        },
        absl::Seconds(30), absl::Milliseconds(100));
  }
  PrefillResult Handed(const Ask& ask) { return Prefill(other_, ask); }

  kvstore::FakeKvStore store_;
  StepGate steps_;
  WorkerNode node_{MakeOptions()};
  WorkerNode other_{[this] {
    WorkerNode::Options options;
    options.store = &store_;
    return options;
  }()};
};

TEST_F(WorkerReleaseTest, DecodeCancelledWhileReserved) {
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(Plain(100)));
  EXPECT_EQ(node_.table().size(), 1u);
  stream.SendCancel();
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerReleaseTest, DecodeCallerGoneWhileReserved) {
  {
    DecodeStream stream(node_);
    ASSERT_TRUE(stream.Reserve(Plain(100)));
    stream.context().TryCancel();
    EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  }
  {
    DecodeStream stream(node_);
    ASSERT_TRUE(stream.Reserve(Plain(100)));
    stream.raw().WritesDone();
    EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  }
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerReleaseTest, DecodeCancelledWhileImporting) {
  const Ask ask = Plain(300);
  const PrefillResult prefill = Handed(ask);
  ASSERT_TRUE(prefill.manifest.has_value());
  store_.Close();
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(ask));
  stream.Start({prefill.first->token().token_id()}, prefill.manifest);
  store_.AwaitWaiting(1);
  stream.SendCancel();
  stream.context().TryCancel();
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  store_.Open();
  EXPECT_TRUE(AtRest());
  EXPECT_TRUE(stream.tokens.empty());
}

TEST_F(WorkerReleaseTest, DecodeCancelledWhileComputingThePrompt) {
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(Plain(900)));
  steps_.Close();
  stream.Start({}, std::nullopt);
  steps_.AwaitWaiting();
  stream.context().TryCancel();
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(AtRestWithoutFinishing());
  EXPECT_EQ(node_.Prompt("computed"), 0);
  steps_.Open();
}

TEST_F(WorkerReleaseTest, DecodeCancelledWhileGenerating) {
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(Plain(30)));
  steps_.Close();
  stream.Start({}, std::nullopt);
  for (int i = 0; i < 3; ++i) steps_.Allow();
  stream.ReadTokens(3);
  stream.SendCancel();
  EXPECT_TRUE(AtRestWithoutFinishing());
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_FALSE(stream.finished.has_value());
  EXPECT_LT(stream.tokens.size(), 500u);
  steps_.Open();
}

TEST_F(WorkerReleaseTest, DeadlineEndsAnAnswer) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(300));
  auto stub = v1::DecodeService::NewStub(node_.channel());
  auto raw = stub->Decode(&context);
  v1::DecodeRequest request;
  const Ask ask = Plain(100);
  request.mutable_reserve()->mutable_token_ids()->Add(ask.prompt.begin(),
                                                      ask.prompt.end());
  raw->Write(request);
  v1::DecodeEvent event;
  ASSERT_TRUE(raw->Read(&event));
  EXPECT_FALSE(raw->Read(&event));  // never started
  EXPECT_EQ(raw->Finish().error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(AtRest());
}

// Starts a prefill, waits for `stage`, leaves.
void LeavePrefill(const WorkerNode& node, const Ask& ask, bool after_first,
                  const std::function<void()>& stage) {
  auto stub = v1::PrefillService::NewStub(node.channel());
  grpc::ClientContext context;
  auto reader = stub->Prefill(&context, ToPrefillRequest(ask));
  v1::PrefillEvent event;
  while (after_first && !event.has_first_token() && reader->Read(&event)) {
  }
  stage();
  context.TryCancel();
  while (reader->Read(&event)) EXPECT_FALSE(event.has_manifest());
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
}

TEST_F(WorkerReleaseTest, PrefillCancelledWhileComputing) {
  steps_.Close();
  LeavePrefill(node_, Plain(900), false, [&] { steps_.AwaitWaiting(); });
  EXPECT_TRUE(AtRestWithoutFinishing());
  EXPECT_EQ(node_.Prompt("computed"), 0);
  steps_.Open();
}

TEST_F(WorkerReleaseTest, PrefillCancelledWhileRestoring) {
  // A part is in the store, so that there is more to do after it.
  const Ask again = Plain(900);
  Ask ask = again;
  ask.handoff = UniqueHandoff();
  ask.prompt.resize(257);
  Handed(ask);
  store_.ExpireLeases();  // of the manifest that nobody takes
  store_.Close();
  steps_.Close();
  LeavePrefill(node_, again, false, [&] { store_.AwaitWaiting(1); });
  store_.Open();
  EXPECT_TRUE(AtRestWithoutFinishing());
  steps_.Open();
}

TEST_F(WorkerReleaseTest, PrefillCancelledWhilePublishing) {
  store_.Close();
  LeavePrefill(node_, Plain(900), true, [&] { store_.AwaitWaiting(1); });
  // What is queued is dropped though the store hangs: one block is in flight,
  // and the tail.
  EXPECT_TRUE(
      Eventually([&] { return node_.context().pool->Stats().held <= 2; }));
  store_.Open();
  EXPECT_TRUE(AtRest());
  EXPECT_EQ(store_.objects(), 1u);
}

TEST_F(WorkerReleaseTest, SlotsAreRefusedWhenTakenAndFreeAgainAfter) {
  std::vector<std::unique_ptr<DecodeStream>> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(std::make_unique<DecodeStream>(node_));
    ASSERT_TRUE(streams.back()->Reserve(Plain(10)));
  }
  {
    DecodeStream fifth(node_);
    EXPECT_FALSE(fifth.Reserve(Plain(10)));
    EXPECT_EQ(fifth.Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  }
  streams.pop_back();
  EXPECT_TRUE(Eventually([&] { return node_.table().size() == 3; }));
  DecodeStream again(node_);
  EXPECT_TRUE(again.Reserve(Plain(10)));
}

TEST_F(WorkerReleaseTest, RoomForThePromptIsPartOfAReservation) {
  // 128 blocks; a prompt of 1000 takes 16.
  WorkerNode::Options options = MakeOptions();
  options.blocks = 20;
  WorkerNode small(options);
  DecodeStream first(small);
  ASSERT_TRUE(first.Reserve(Plain(1000)));
  DecodeStream second(small);
  EXPECT_FALSE(second.Reserve(Plain(1000)));
  EXPECT_EQ(second.Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  DecodeStream third(small);
  EXPECT_TRUE(third.Reserve(Plain(200)));
}

TEST_F(WorkerReleaseTest, ReservationThatIsNeverStartedExpires) {
  WorkerNode::Options options = MakeOptions();
  options.reservation_ttl = absl::Milliseconds(40);
  WorkerNode hasty(options);
  DecodeStream stream(hasty);
  ASSERT_TRUE(stream.Reserve(Plain(10)));
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::ABORTED);
  EXPECT_TRUE(Eventually([&] { return hasty.AtRest(); }));
}

TEST_F(WorkerReleaseTest, MessagesOutOfOrderAreRefused) {
  {
    DecodeStream stream(node_);
    stream.Start({}, std::nullopt);
    EXPECT_EQ(stream.Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  }
  {
    DecodeStream stream(node_);
    ASSERT_TRUE(stream.Reserve(Plain(10)));
    EXPECT_FALSE(stream.Reserve(Plain(10)));
    EXPECT_EQ(stream.Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  }
  {
    DecodeStream stream(node_);
    ASSERT_TRUE(stream.Reserve(Plain(10)));
    steps_.Close();
    stream.Start({}, std::nullopt);
    steps_.Allow();
    stream.ReadTokens(1);
    stream.Start({}, std::nullopt);
    EXPECT_TRUE(AtRestWithoutFinishing());
    EXPECT_EQ(stream.Finish().error_code(), StatusCode::INVALID_ARGUMENT);
    steps_.Open();
  }
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerReleaseTest, BadRequestsNameTheirFault) {
  const auto refused = [&](const char* message,
                           const std::function<void(Ask*)>& damage) {
    SCOPED_TRACE(message);
    Ask ask = Plain(20);
    damage(&ask);
    const grpc::Status prefill = Prefill(node_, ask).status;
    EXPECT_EQ(prefill.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(prefill.error_message(), testing::HasSubstr(message));
    DecodeStream stream(node_);
    EXPECT_FALSE(stream.Reserve(ask));
    const grpc::Status decode = stream.Finish();
    EXPECT_EQ(decode.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(decode.error_message(), testing::HasSubstr(message));
  };
  refused("empty", [](Ask* ask) { ask->prompt.clear(); });
  refused("1024", [](Ask* ask) { ask->prompt.assign(1024, 5); });
  refused("token_ids[3]", [](Ask* ask) { ask->prompt[3] = 300; });
  refused("token_ids[0]", [](Ask* ask) { ask->prompt[0] = -1; });
  refused("top_p", [](Ask* ask) { ask->sampling.set_top_p(0); });
  refused("temperature", [](Ask* ask) { ask->sampling.set_temperature(-1); });
  refused("max_tokens", [](Ask* ask) { ask->stop.set_max_tokens(0); });
  refused("stop_token", [](Ask* ask) { ask->stop.add_stop_token_ids(999); });
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerReleaseTest, AnswerEndsWhereTheContextIsFull) {
  Ask ask = Plain(1000);
  ask.stop.clear_max_tokens();
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(ask));
  stream.Start({}, std::nullopt);
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.tokens.size(), 24u);
  EXPECT_EQ(stream.finished->reason(), v1::FINISH_REASON_LENGTH);
}

TEST_F(WorkerReleaseTest, SlowReaderGetsEveryToken) {
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(Plain(30)));
  stream.Start({}, std::nullopt);
  // All is generated before the first is read.
  ASSERT_TRUE(Eventually([&] { return node_.table().size() == 0; }));
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.tokens.size(), 500u);
  EXPECT_EQ(stream.positions.back(), 529u);
}

TEST_F(WorkerReleaseTest, LoadingAndDrainingRefuse) {
  WorkerNode::Options options = MakeOptions();
  options.open = false;
  WorkerNode node(options);
  EXPECT_EQ(Prefill(node, Plain(10)).status.error_code(),
            StatusCode::UNAVAILABLE);
  node.Open();
  EXPECT_TRUE(Prefill(node, Plain(10)).status.ok());
  DecodeStream running(node);
  ASSERT_TRUE(running.Reserve(Plain(10)));
  auto admin = v1::AdminService::NewStub(node.channel());
  v1::DrainResponse response;
  {
    grpc::ClientContext context;
    v1::DrainRequest request;
    request.mutable_deadline()->set_nanos(50'000'000);
    ASSERT_TRUE(admin->Drain(&context, request, &response).ok());
    EXPECT_EQ(response.remaining_requests(), 1u);
  }
  EXPECT_TRUE(node.drained());
  EXPECT_EQ(Prefill(node, Plain(10)).status.error_code(),
            StatusCode::UNAVAILABLE);
  // Whoever is inside may finish.
  running.Start({}, std::nullopt);
  EXPECT_TRUE(running.Finish().ok());
  EXPECT_EQ(running.tokens.size(), 500u);
  grpc::ClientContext context;
  ASSERT_TRUE(admin->Drain(&context, {}, &response).ok());
  EXPECT_EQ(response.remaining_requests(), 0u);
}

TEST_F(WorkerReleaseTest, DiscoveryAndModelTellTheTruth) {
  auto discovery = v1::DiscoveryService::NewStub(node_.channel());
  v1::ServerInfo info;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(discovery->GetServerInfo(&context, {}, &info).ok());
  }
  EXPECT_EQ(info.model().vocabulary_size(), FakeModel::kVocabulary);
  EXPECT_EQ(info.layout().fingerprint(), node_.context().fingerprint.Raw());
  EXPECT_EQ(info.kv_blocks_total(), 128u);
  DecodeStream stream(node_);
  ASSERT_TRUE(stream.Reserve(Plain(10)));
  v1::ServerLoad load;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(discovery->GetLoad(&context, {}, &load).ok());
  }
  EXPECT_EQ(load.reservations(), 1u);
  EXPECT_EQ(load.inflight_requests(), 1u);
  auto models = v1::ModelService::NewStub(node_.channel());
  {
    grpc::ClientContext context;
    auto reader = models->GetHeader(&context, {});
    v1::HeaderChunk chunk;
    std::string header;
    while (reader->Read(&chunk)) header += chunk.payload();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(header, "fake header");
  }
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_name("another");
  v1::ModelInfo model;
  EXPECT_EQ(models->GetModel(&context, request, &model).error_code(),
            StatusCode::NOT_FOUND);
}

TEST_F(WorkerReleaseTest, FlushDropsWhatNobodyHolds) {
  Prefill(node_, Plain(200, 1));
  ASSERT_TRUE(AtRest());
  auto admin = v1::AdminService::NewStub(node_.channel());
  grpc::ClientContext context;
  v1::FlushCacheResponse response;
  ASSERT_TRUE(admin->FlushCache(&context, {}, &response).ok());
  EXPECT_EQ(response.dropped_blocks(), 3u);
  EXPECT_EQ(node_.context().pool->Stats().cached, 0u);
}

}  // namespace
}  // namespace baton::worker
