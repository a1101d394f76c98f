// Prefill and decode workers over loopback, one store between them: the tokens
// are those of one engine alone, whatever the way and whatever fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/integration/worker_node.h"
#include "tests/support/fake_kvstore.h"

namespace baton::worker {
namespace {

using ::testing::ElementsAreArray;

constexpr uint32_t kAnswer = 40;

std::vector<TokenId> Prompt(uint32_t tokens, uint32_t seed = 1) {
  std::vector<TokenId> prompt;
  uint32_t state = seed * 2654435761u + 12345;
  for (uint32_t i = 0; i < tokens; ++i) {
    state = state * 1664525 + 1013904223;
    prompt.push_back(static_cast<TokenId>(3 + (state >> 8) % 290));
  }
  return prompt;
}

Ask Greedy(uint32_t prompt_tokens, uint32_t seed = 1) {
  Ask ask;
  ask.handoff = UniqueHandoff();
  ask.prompt = Prompt(prompt_tokens, seed);
  ask.sampling.set_temperature(0);
  ask.stop.set_max_tokens(kAnswer);
  ask.stop.set_ignore_eos(true);
  return ask;
}

Ask Sampled(uint32_t prompt_tokens) {
  Ask ask = Greedy(prompt_tokens);
  ask.sampling.set_temperature(0.8f);
  ask.sampling.set_top_k(50);
  ask.sampling.set_seed(4711);
  ask.sampling.set_presence_penalty(0.5f);
  return ask;
}

// The answer of one worker alone.
std::vector<TokenId> Alone(const WorkerNode& node, const Ask& ask) {
  DecodeStream stream(node);
  EXPECT_TRUE(stream.Reserve(ask));
  stream.Start({}, std::nullopt);
  const grpc::Status status = stream.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return stream.tokens;
}

struct HandedOver {
  PrefillResult prefill;
  std::vector<TokenId> tokens;
  v1::DecodeStarted started;
  v1::DecodeFinished finished;
  grpc::Status status;
};

// As a gateway does it; `between` runs after prefill and before the start.
HandedOver HandOver(
    const WorkerNode& prefill, const WorkerNode& decode, const Ask& ask,
    const std::function<void(v1::HandoffManifest*)>& between = nullptr) {
  HandedOver result;
  DecodeStream stream(decode);
  EXPECT_TRUE(stream.Reserve(ask));
  Ask checked = ask;
  checked.fingerprint = stream.reserved.layout_fingerprint();
  result.prefill = Prefill(prefill, checked);
  EXPECT_TRUE(result.prefill.status.ok())
      << result.prefill.status.error_message();
  if (!result.prefill.manifest.has_value()) return result;
  if (between) between(&*result.prefill.manifest);
  const TokenId first = result.prefill.first->token().token_id();
  stream.Start({first}, result.prefill.manifest);
  result.status = stream.Finish();
  result.tokens = {first};
  result.tokens.insert(result.tokens.end(), stream.tokens.begin(),
                       stream.tokens.end());
  if (stream.started) result.started = *stream.started;
  if (stream.finished) result.finished = *stream.finished;
  return result;
}

class WorkerHandoffTest : public ::testing::Test {
 protected:
  WorkerNode::Options WithStore() {
    WorkerNode::Options options;
    options.store = &store_;
    return options;
  }
  bool AtRest() {
    return Eventually([&] {
      return prefill_.AtRest() && decode_.AtRest() && alone_.AtRest() &&
             store_.leases() == 0;
    });
  }

  kvstore::FakeKvStore store_;
  WorkerNode prefill_{WithStore()};
  WorkerNode decode_{WithStore()};
  WorkerNode alone_{WorkerNode::Options()};
};

TEST_F(WorkerHandoffTest, TokensEqualThoseOfOneEngineAtEveryLength) {
  for (uint32_t length : {1, 63, 64, 65, 127, 128, 129, 300}) {
    for (const bool sampled : {false, true}) {
      SCOPED_TRACE(testing::Message() << length << " sampled " << sampled);
      Ask ask = sampled ? Sampled(length) : Greedy(length);
      ask.salt = sampled ? "b" : "a";  // nothing is found of the other run
      const HandedOver over = HandOver(prefill_, decode_, ask);
      ASSERT_TRUE(over.status.ok()) << over.status.error_message();
      EXPECT_EQ(over.tokens.size(), kAnswer);
      EXPECT_THAT(over.tokens, ElementsAreArray(Alone(alone_, ask)));
      // Cold: all was computed there, all was brought here.
      const v1::PromptSources& there = over.prefill.first->sources();
      EXPECT_EQ(there.computed_tokens() + there.local_cache_tokens() +
                    there.kv_store_tokens(),
                length);
      const v1::PromptSources& here = over.started.sources();
      EXPECT_EQ(here.computed_tokens(), 0u);
      EXPECT_EQ(here.local_cache_tokens() + here.kv_store_tokens(), length);
      EXPECT_EQ(over.prefill.manifest->position().kv_tokens(), length);
      EXPECT_EQ(over.finished.reason(), v1::FINISH_REASON_LENGTH);
      EXPECT_EQ(over.finished.generated_tokens(), kAnswer - 1);
    }
  }
  EXPECT_EQ(decode_.Fallbacks("not_published"), 0);
  EXPECT_TRUE(AtRest());
  EXPECT_EQ(store_.ephemeral_objects(), 0u);
}

TEST_F(WorkerHandoffTest, PartialTailTravelsPacked) {
  const Ask ask = Greedy(70);
  const HandedOver over = HandOver(prefill_, decode_, ask);
  ASSERT_EQ(over.prefill.manifest->blocks_size(), 2);
  EXPECT_EQ(over.prefill.manifest->blocks(1).tokens(), 6u);
  EXPECT_EQ(over.started.handoff_bytes(),
            FakeModel::kBlockBytes + FakeModel::kBlockBytes / 64 * 6);
  EXPECT_EQ(over.started.sources().kv_store_tokens(), 70u);
}

TEST_F(WorkerHandoffTest, RepeatedPromptIsNotComputedTwice) {
  const Ask ask = Greedy(300);
  HandOver(prefill_, decode_, ask);
  // Again on the same workers: from their own memory.
  Ask again = ask;
  again.handoff = "again-2";
  const HandedOver warm = HandOver(prefill_, decode_, again);
  EXPECT_EQ(warm.prefill.first->sources().local_cache_tokens(), 256u);
  EXPECT_EQ(warm.prefill.first->sources().computed_tokens(), 44u);
  EXPECT_EQ(warm.started.sources().local_cache_tokens(), 256u);
  EXPECT_EQ(warm.started.sources().kv_store_tokens(), 44u);
  // On workers that never saw it: from the store.
  WorkerNode fresh(WithStore());
  Ask third = ask;
  third.handoff = "again-3";
  const HandedOver stored = HandOver(fresh, decode_, third);
  EXPECT_EQ(stored.prefill.first->sources().kv_store_tokens(), 256u);
  EXPECT_EQ(stored.prefill.first->sources().computed_tokens(), 44u);
  EXPECT_THAT(stored.tokens, ElementsAreArray(Alone(alone_, ask)));
  // Each prompt was counted once, where it was computed.
  EXPECT_EQ(prefill_.Prompt("computed"), 300 + 44);
  EXPECT_EQ(prefill_.Prompt("local_cache"), 256);
  EXPECT_EQ(fresh.Prompt("kv_store"), 256);
  EXPECT_EQ(decode_.Prompt("computed"), 0);
  EXPECT_EQ(decode_.Prompt("kv_store"), 0);
  EXPECT_TRUE(Eventually([&] { return fresh.AtRest(); }));
}

TEST_F(WorkerHandoffTest, AnswersSurviveInTheStore) {
  // A whole block lies within the answer: 60 + 40 tokens.
  const Ask ask = Greedy(60);
  const HandedOver first = HandOver(prefill_, decode_, ask);
  ASSERT_TRUE(first.status.ok());
  ASSERT_TRUE(Eventually([&] {
    return store_.objects() == 1 && store_.ephemeral_objects() == 0;
  }));
  Ask next = ask;
  next.handoff = "again-2";
  next.prompt.insert(next.prompt.end(), first.tokens.begin(),
                     first.tokens.end());
  WorkerNode fresh(WithStore());
  const PrefillResult result = Prefill(fresh, next);
  ASSERT_TRUE(result.first.has_value());
  EXPECT_EQ(result.first->sources().kv_store_tokens(), 64u);
}

TEST_F(WorkerHandoffTest, EachFaultOnlyCostsComputation) {
  struct Case {
    const char* name;
    const char* reason;
    uint32_t corrupt;
    uint32_t imported;
    std::function<void(const v1::HandoffManifest&)> fault;
  };
  const auto key = [](const v1::HandoffManifest& manifest, int block) {
    return *kvstore::BlockKey::FromRaw(manifest.blocks(block).key());
  };
  const Case cases[] = {
      {"flipped block", "crc", 1, 64,
       [&](const auto& m) { EXPECT_TRUE(store_.FlipByte(key(m, 1))); }},
      {"flipped tail", "crc", 1, 256,
       [&](const auto& m) { EXPECT_TRUE(store_.FlipByte(key(m, 4))); }},
      {"dropped block", "missing", 0, 128,
       [&](const auto& m) { EXPECT_TRUE(store_.Drop(key(m, 2))); }},
      {"expired lease", "expired", 0, 0,
       [&](const auto&) { store_.ExpireLeases(); }},
      {"restarted store", "expired", 0, 0,
       [&](const auto&) { store_.Restart(); }},
      {"store away", "unavailable", 0, 0,
       [&](const auto&) { store_.SetAway(true); }},
  };
  std::map<std::string, int> expected;
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    Ask ask = Greedy(300);
    ask.salt = test.name;
    const HandedOver over =
        HandOver(prefill_, decode_, ask,
                 [&](v1::HandoffManifest* manifest) { test.fault(*manifest); });
    store_.SetAway(false);
    store_.ExpireLeases();  // those that could not be given back
    ASSERT_TRUE(over.status.ok()) << over.status.error_message();
    EXPECT_THAT(over.tokens, ElementsAreArray(Alone(alone_, ask)));
    EXPECT_EQ(over.started.corrupt_blocks(), test.corrupt);
    EXPECT_EQ(over.started.sources().kv_store_tokens(), test.imported);
    EXPECT_EQ(decode_.Fallbacks(test.reason), ++expected[test.reason]);
    EXPECT_TRUE(AtRest());
  }
}

TEST_F(WorkerHandoffTest, StoreThatIsAwayFromTheStartIsNoObstacle) {
  store_.SetAway(true);
  const Ask ask = Greedy(129);
  const HandedOver over = HandOver(prefill_, decode_, ask);
  ASSERT_TRUE(over.status.ok());
  EXPECT_EQ(over.prefill.manifest->blocks_size(), 0);
  EXPECT_EQ(over.prefill.manifest->lease_id(), 0u);
  EXPECT_EQ(over.started.sources().computed_tokens(), 129u);
  EXPECT_EQ(decode_.Fallbacks("not_published"), 1);
  EXPECT_THAT(over.tokens, ElementsAreArray(Alone(alone_, ask)));
}

TEST_F(WorkerHandoffTest, FullStoreLeavesAManifestOfWhatIsThere) {
  store_.FailPublishes(absl::ResourceExhaustedError("full"));
  const Ask ask = Greedy(200);
  const HandedOver over = HandOver(prefill_, decode_, ask);
  ASSERT_TRUE(over.status.ok());
  EXPECT_EQ(over.prefill.manifest->blocks_size(), 0);
  EXPECT_THAT(over.tokens, ElementsAreArray(Alone(alone_, ask)));
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerHandoffTest, DamagedPrefixIsComputedAndPublishedAgain) {
  const Ask ask = Greedy(300);
  const HandedOver first = HandOver(prefill_, decode_, ask);
  const auto key =
      *kvstore::BlockKey::FromRaw(first.prefill.manifest->blocks(2).key());
  ASSERT_TRUE(store_.FlipByte(key));
  WorkerNode fresh(WithStore());
  Ask again = ask;
  again.handoff = "again-2";
  const PrefillResult result = Prefill(fresh, again);
  EXPECT_EQ(result.first->sources().kv_store_tokens(), 128u);
  EXPECT_EQ(result.first->sources().computed_tokens(), 172u);
  EXPECT_EQ(result.manifest->position().kv_tokens(), 300u);
  EXPECT_EQ(fresh.Metric("baton_prefix_restore_failures_total{model_name="
                         "\"fake\",reason=\"crc\"}"),
            1);
  EXPECT_TRUE(store_.Has(key));
}

TEST_F(WorkerHandoffTest, ResumeContinuesTheSameAnswer) {
  for (const Ask& ask : {Greedy(100), Sampled(100)}) {
    const std::vector<TokenId> whole = Alone(alone_, ask);
    for (size_t sent : {1, 27, 28, 29, 39}) {
      SCOPED_TRACE(sent);
      DecodeStream stream(decode_);
      ASSERT_TRUE(stream.Reserve(ask));
      stream.Start({whole.begin(), whole.begin() + sent}, std::nullopt);
      ASSERT_TRUE(stream.Finish().ok());
      EXPECT_THAT(stream.tokens,
                  ElementsAreArray(whole.begin() + sent, whole.end()));
      ASSERT_FALSE(stream.positions.empty());
      EXPECT_EQ(stream.positions.front(), 100 + sent);
    }
  }
  // A resumed prompt is not counted again.
  EXPECT_EQ(decode_.Prompt("computed"), 0);
}

TEST_F(WorkerHandoffTest, ResumeOfAWholeAnswerOnlyFinishes) {
  const Ask ask = Greedy(100);
  const std::vector<TokenId> whole = Alone(alone_, ask);
  DecodeStream stream(decode_);
  ASSERT_TRUE(stream.Reserve(ask));
  stream.Start(whole, std::nullopt);
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(stream.tokens.empty());
  EXPECT_EQ(stream.finished->reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerHandoffTest, MoreThanAWholeAnswerIsRefused) {
  // Beyond max_tokens; and, where none is set, beyond the context.
  for (const bool limited : {true, false}) {
    Ask ask = Greedy(100);
    if (!limited) ask.stop.clear_max_tokens();
    const size_t room = limited ? ask.stop.max_tokens()
                                : decode_.context().context_length - 100;
    DecodeStream stream(decode_);
    ASSERT_TRUE(stream.Reserve(ask));
    stream.Start(std::vector<TokenId>(room + 1, 1), std::nullopt);
    const grpc::Status status = stream.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << status.error_message();
    EXPECT_FALSE(stream.finished.has_value());
    EXPECT_TRUE(AtRest());
  }
}

TEST_F(WorkerHandoffTest, FirstTokenThatEndsTheRequestHasNoManifest) {
  Ask ask = Greedy(100);
  ask.stop.set_max_tokens(1);
  const PrefillResult result = Prefill(prefill_, ask);
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.first->finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_FALSE(result.manifest.has_value());
  EXPECT_TRUE(AtRest());
  // What was computed is still of use to others.
  EXPECT_EQ(store_.objects(), 1u);
}

TEST_F(WorkerHandoffTest, PeersThatDisagreeAreRefusedBeforeAByteIsUsed) {
  const auto refused = [&](const char* name, const char* message,
                           std::function<void(v1::HandoffManifest*)> damage) {
    SCOPED_TRACE(name);
    Ask ask = Greedy(130);
    ask.salt = name;
    ask.handoff = name;
    const int before = store_.counts().fetches;
    const HandedOver over = HandOver(prefill_, decode_, ask, damage);
    EXPECT_EQ(over.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(over.status.error_message(), testing::HasSubstr(message));
    EXPECT_EQ(store_.counts().fetches, before);
    EXPECT_TRUE(AtRest());
  };
  refused("committed", "position contract", [](v1::HandoffManifest* manifest) {
    manifest->mutable_position()->set_committed_tokens(132);
  });
  refused("rows", "position contract", [](v1::HandoffManifest* manifest) {
    manifest->mutable_position()->set_kv_tokens(129);
  });
  refused("pending", "position contract", [](v1::HandoffManifest* manifest) {
    manifest->mutable_position()->set_pending_token_id(
        manifest->position().pending_token_id() ^ 1);
  });
  refused("counter", "position contract", [](v1::HandoffManifest* manifest) {
    manifest->mutable_position()->set_random_counter(130);
  });
  refused("swapped", "other tokens", [](v1::HandoffManifest* manifest) {
    manifest->mutable_blocks(0)->Swap(manifest->mutable_blocks(1));
  });
}

TEST_F(WorkerHandoffTest, AnotherLayoutIsRefusedOnBothSides) {
  WorkerNode::Options options = WithStore();
  options.numerics_id = "fake-2";
  WorkerNode other(options);
  Ask ask = Greedy(100);
  ask.fingerprint = other.context().fingerprint.Raw();
  EXPECT_EQ(Prefill(prefill_, ask).status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ask.fingerprint.clear();
  const PrefillResult prefill = Prefill(prefill_, ask);
  DecodeStream stream(other);
  ASSERT_TRUE(stream.Reserve(ask));
  stream.Start({prefill.first->token().token_id()}, prefill.manifest);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("numerics id"));
  EXPECT_TRUE(AtRest());
}

TEST_F(WorkerHandoffTest, SaltsSeparateTenants) {
  Ask ask = Greedy(200);
  ask.salt = "tenant-a";
  Prefill(prefill_, ask);
  ask.salt = "tenant-b";
  ask.handoff = "again-2";
  EXPECT_EQ(Prefill(prefill_, ask).first->sources().computed_tokens(), 200u);
}

TEST_F(WorkerHandoffTest, EightAtOnceEqualEachAlone) {
  std::vector<HandedOver> results(8);
  std::vector<std::thread> threads;
  const auto ask_of = [](uint32_t i) {
    return i % 2 == 0 ? Greedy(40 + 37 * i, i / 4) : Sampled(100 + i);
  };
  for (uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back(
        [&, i] { results[i] = HandOver(prefill_, decode_, ask_of(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(results[i].status.ok());
    EXPECT_THAT(results[i].tokens, ElementsAreArray(Alone(alone_, ask_of(i))));
  }
  EXPECT_TRUE(AtRest());
}

}  // namespace
}  // namespace baton::worker
