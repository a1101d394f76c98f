#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/flow/request_flow.h"
#include "services/base/error_details.h"
#include "tests/support/flow_harness.h"
#include "tests/support/flow_states.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using testing_support::FlowHarness;
using testing_support::InState;
using testing_support::kLive;
using testing_support::kWithDecode;
using testing_support::MakeSpec;
using testing_support::Workers;

TEST(RequestFlowTest, ReservesThenPrefillsThenDecodes) {
  auto h = InState(FlowState::kDecoding);
  EXPECT_EQ(h->at(h->prefill()).worker, "p1");
  EXPECT_EQ(h->at(h->prefill()).request.layout_fingerprint, "layout");
  EXPECT_EQ(h->at(h->prefill()).request.handoff_id,
            h->at(h->decode()).request.handoff_id);
  const auto& start = h->at(h->decode()).start;
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->manifest, "manifest");
  EXPECT_THAT(start->committed, ElementsAre('a'));
  h->EndToken();
  EXPECT_FALSE(h->report.has_value()) << "waits for the worker's account";
  h->Finished(FinishReason::kStop);
  ASSERT_TRUE(h->report.has_value());
  EXPECT_EQ(h->text, "abc");
  EXPECT_EQ(h->report->completion_tokens, 4u) << "the end token counts";
  EXPECT_EQ(h->report->finish_reason, FinishReason::kStop);
  EXPECT_EQ(h->report->prefill_worker, "p1");
  EXPECT_EQ(h->report->decode_worker, "d1");
  EXPECT_EQ(h->report->sources.computed, 6u);
  EXPECT_EQ(h->report->prefill, absl::Milliseconds(40));
  EXPECT_EQ(h->report->resumes, 0u);
}

TEST(RequestFlowTest, FirstTokenIsSentBeforeTheManifest) {
  auto h = InState(FlowState::kPrefilling);
  h->now += absl::Milliseconds(250);
  h->First('a');
  EXPECT_EQ(h->text, "a");
  EXPECT_EQ(h->flow.state(), FlowState::kPrefilling);
}

TEST(RequestFlowTest, DecodesAloneWithoutAPrefillWorker) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({}, {"d1"}));
  h.Admit();
  h.Reserved();
  const auto& start = h.at(h.decode()).start;
  ASSERT_TRUE(start.has_value());
  EXPECT_FALSE(start->manifest.has_value());
  h.Event(h.decode(), WorkerProgress{3, 6});
  h.Started({2, 1, 3});
  h.now += absl::Milliseconds(100);
  h.Tokens("a");
  h.Tokens("b");
  h.EndToken();
  h.Finished(FinishReason::kStop);
  EXPECT_EQ(h.progress, 1u);
  EXPECT_EQ(h.text, "ab");
  EXPECT_EQ(h.report->prefill_worker, "");
  EXPECT_EQ(h.report->sources.kv_store, 3u);
  EXPECT_EQ(h.report->prefill, absl::Milliseconds(70));
  EXPECT_EQ(h.report->time_to_first_token, absl::Milliseconds(100));
}

TEST(RequestFlowTest, SkipsPrefillWhenDecodeHoldsThePrompt) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({"p1"}, {"d1"}));
  h.Admit();
  h.Reserved(6);
  EXPECT_EQ(h.prefill(), 0u);
  EXPECT_TRUE(h.at(h.decode()).start.has_value());
}

TEST(RequestFlowTest, FirstTokenMayEndTheAnswer) {
  auto h = InState(FlowState::kPrefilling);
  h->First('a', FinishReason::kStop);
  ASSERT_TRUE(h->report.has_value());
  EXPECT_EQ(h->report->completion_tokens, 1u);
}

TEST(RequestFlowTest, OneTokenLimitEndsWithTheFirst) {
  auto h = InState(FlowState::kPrefilling, 1);
  h->First('a');
  ASSERT_TRUE(h->report.has_value());
  EXPECT_EQ(h->report->finish_reason, FinishReason::kLength);
}

TEST(RequestFlowTest, StopStringEndsAtOnceAndDropsLaterTokens) {
  GenerationSpec spec = MakeSpec("prompt", 10);
  spec.limits.stop = {"cd"};
  FlowHarness h(spec, Workers({}, {"d1"}));
  h.Admit();
  h.Reserved();
  h.Started();
  h.Tokens("abcdef");
  ASSERT_TRUE(h.report.has_value());
  EXPECT_EQ(h.text, "ab");
  EXPECT_EQ(h.report->completion_tokens, 4u);
}

TEST(RequestFlowTest, CancelEndsEveryState) {
  for (FlowState state : kLive) {
    auto h = InState(state);
    h->Cancel();
    ASSERT_TRUE(h->error.has_value()) << FlowStateName(state);
    EXPECT_TRUE(absl::IsCancelled(*h->error));
    EXPECT_EQ(h->flow.state(), FlowState::kCancelled);
    h->Cancel();
    h->Tick(absl::Hours(1));
  }
}

TEST(RequestFlowTest, DeadlineEndsEveryState) {
  for (FlowState state : kLive) {
    RequestFlow::Options options;
    auto h = InState(state);
    h->now = absl::Seconds(699);
    h->Tick(absl::Seconds(1));
    ASSERT_TRUE(h->error.has_value()) << FlowStateName(state);
    EXPECT_TRUE(absl::IsDeadlineExceeded(*h->error));
  }
}

TEST(RequestFlowTest, WaitsForAdmissionOnlySoLong) {
  auto h = InState(FlowState::kQueued);
  EXPECT_EQ(h->flow.NextWake(), absl::Seconds(160));
  h->TickAtWake();
  ASSERT_TRUE(h->error.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*h->error));
  EXPECT_EQ(ErrorReason(*h->error), "queue_timeout");
}

TEST(RequestFlowTest, RefusedRequestEndsWithTheReason) {
  auto h = InState(FlowState::kQueued);
  h->flow.OnRefused(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(h->flow.state(), FlowState::kFailed);
}

TEST(RequestFlowTest, NewRequestWithoutWorkersFailsAtOnce) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({"p1"}, {}));
  h.Admit();
  ASSERT_TRUE(h.error.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*h.error));
  EXPECT_EQ(ErrorReason(*h.error), "no_worker");
  EXPECT_TRUE(RetryAfter(*h.error).has_value());
}

TEST(RequestFlowTest, LostDecodeWorkerMovesToAnother) {
  for (FlowState state : kWithDecode) {
    for (const absl::Status& status :
         {absl::UnavailableError("x"), absl::AbortedError("x"),
          absl::InternalError("x"), absl::UnknownError("x"),
          absl::CancelledError("x"), absl::OkStatus()}) {
      auto h = InState(state);
      const std::string sent = h->tokens_text();
      const auto handoff = h->at(h->decode()).request.handoff_id;
      h->LoseDecode(status);
      EXPECT_EQ(h->decode_worker(), "d2") << FlowStateName(state);
      EXPECT_NE(h->at(h->decode()).request.handoff_id, handoff);
      EXPECT_EQ(h->flow.state(), FlowState::kReserving);
      h->Reserved();
      if (sent.empty()) {
        ASSERT_EQ(h->flow.state(), FlowState::kPrefilling);
        h->First('a');
        h->Manifest();
      } else {
        EXPECT_FALSE(h->at(h->decode()).start->manifest.has_value());
      }
      h->Started();
      h->Tokens("xyz");
      h->EndToken();
      h->Finished(FinishReason::kStop);
      ASSERT_TRUE(h->report.has_value());
      EXPECT_EQ(h->text, (sent.empty() ? "a" : sent) + "xyz");
      EXPECT_EQ(h->report->decode_worker, "d2");
    }
  }
}

TEST(RequestFlowTest, FaultOfRequestOrConfigurationIsNotRetried) {
  for (const absl::Status& status :
       {absl::InvalidArgumentError("x"), absl::FailedPreconditionError("x")}) {
    for (FlowState state : kWithDecode) {
      auto h = InState(state);
      h->LoseDecode(status);
      ASSERT_TRUE(h->error.has_value());
      EXPECT_EQ(h->error->code(), status.code());
    }
    auto h = InState(FlowState::kPrefilling);
    h->LosePrefill(status);
    EXPECT_EQ(h->error->code(), status.code());
  }
}

TEST(RequestFlowTest, ResumeNeedsEqualNumericsOnceATokenIsOut) {
  auto h = InState(FlowState::kDecoding);
  h->Worker("d2").numerics_id = "other";
  h->Worker("d1").ready = false;
  h->LoseDecode();
  EXPECT_EQ(h->open_streams(), 0u) << "d2 would go on differently";
  h->Tick(absl::Seconds(31));
  ASSERT_TRUE(h->error.has_value());
  EXPECT_EQ(ErrorReason(*h->error), "worker_lost");
}

TEST(RequestFlowTest, WaitsForTheSameWorkerToComeBack) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({}, {"d1"}));
  h.Admit();
  h.Reserved();
  h.Started();
  h.Tokens("ab");
  h.Worker("d1").ready = false;
  h.LoseDecode();
  EXPECT_EQ(h.open_streams(), 0u);
  for (int i = 0; i < 10; ++i) h.TickAtWake();
  EXPECT_FALSE(h.error.has_value());
  h.Worker("d1").ready = true;
  h.TickAtWake();
  ASSERT_EQ(h.open_streams(), 1u);
  h.Reserved();
  EXPECT_THAT(h.at(h.decode()).start->committed, ElementsAre('a', 'b'));
  h.Started();
  h.Tokens("c");
  h.EndToken();
  h.Finished(FinishReason::kStop);
  EXPECT_EQ(h.text, "abc");
  EXPECT_EQ(h.report->resumes, 1u);
}

TEST(RequestFlowTest, FullWorkersAreWaitedForThenReported) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({}, {"d1"}));
  h.Admit();
  const absl::Status full = absl::ResourceExhaustedError("no slot");
  int attempts = 0;
  while (!h.error.has_value() && attempts < 1000) {
    if (h.open_streams() > 0) {
      ++attempts;
      h.LoseDecode(full);
    } else {
      h.TickAtWake();
    }
  }
  EXPECT_GT(attempts, 10);
  EXPECT_TRUE(absl::IsResourceExhausted(*h.error));
  EXPECT_EQ(ErrorReason(*h.error), "queue_full");
  EXPECT_LE(h.now, absl::Seconds(132));
}

TEST(RequestFlowTest, RequestThatKillsWorkersIsGivenUp) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({}, {"d1"}));
  h.Admit();
  int kills = 0;
  while (!h.error.has_value() && kills < 100) {
    if (h.open_streams() > 0) {
      h.Reserved();
      h.LoseDecode();
      ++kills;
    } else {
      h.TickAtWake();
    }
  }
  EXPECT_EQ(kills, 5);
  EXPECT_TRUE(absl::IsUnavailable(*h.error));
}

TEST(RequestFlowTest, LostPrefillBeforeTheFirstTokenTriesOneOther) {
  FlowHarness h(MakeSpec("prompt", 10), Workers({"p1", "p2", "p3"}, {"d1"}));
  h.Admit();
  h.Reserved();
  EXPECT_EQ(h.at(h.prefill()).worker, "p1");
  h.LosePrefill();
  EXPECT_EQ(h.at(h.prefill()).worker, "p2");
  EXPECT_EQ(h.flow.state(), FlowState::kPrefilling);
  h.LosePrefill();
  const auto& start = h.at(h.decode()).start;
  ASSERT_TRUE(start.has_value()) << "then decode computes the prompt";
  EXPECT_FALSE(start->manifest.has_value());
  EXPECT_TRUE(start->committed.empty());
  EXPECT_THAT(h.retries, ElementsAre("prefill", "prefill"));
}

TEST(RequestFlowTest, EveryPassingPrefillFaultFallsBackToDecode) {
  for (const absl::Status& status :
       {absl::UnavailableError("x"), absl::AbortedError("x"),
        absl::DataLossError("x"), absl::NotFoundError("x"),
        absl::InternalError("x"), absl::ResourceExhaustedError("x"),
        absl::OkStatus()}) {
    auto h = InState(FlowState::kPrefilling);
    h->LosePrefill(status);
    EXPECT_TRUE(h->at(h->decode()).start.has_value()) << status;
    EXPECT_EQ(h->flow.state(), FlowState::kTransferring);
  }
}

TEST(RequestFlowTest, LostPrefillAfterTheFirstTokenKeepsIt) {
  auto h = InState(FlowState::kPrefilling);
  h->First('a');
  h->LosePrefill();
  const auto& start = h->at(h->decode()).start;
  ASSERT_TRUE(start.has_value());
  EXPECT_FALSE(start->manifest.has_value());
  EXPECT_THAT(start->committed, ElementsAre('a'));
  h->Started();
  h->Tokens("b");
  EXPECT_EQ(h->text, "ab");
}

TEST(RequestFlowTest, PrefillEndingAfterTheManifestIsNoLoss) {
  auto h = InState(FlowState::kTransferring);
  h->LosePrefill(absl::UnavailableError("died after its work"));
  EXPECT_EQ(h->flow.state(), FlowState::kTransferring);
  EXPECT_THAT(h->retries, ElementsAre());
}

TEST(RequestFlowTest, ManifestBeforeTheFirstTokenIsAFault) {
  auto h = InState(FlowState::kPrefilling);
  h->Manifest();
  EXPECT_THAT(h->retries, ElementsAre("prefill"));
  EXPECT_FALSE(h->at(h->decode()).start->manifest.has_value());
}

TEST(RequestFlowTest, TokenAtAWrongPositionLosesTheWorkerNotTheStream) {
  for (uint32_t wrong : {2u, 4u}) {  // repeated, skipped
    auto h = InState(FlowState::kDecoding);
    DecodeTokensEvent event;
    event.tokens.push_back(h->Token('x', wrong));
    h->Event(h->decode(), event);
    EXPECT_EQ(h->text, "abc");
    EXPECT_EQ(h->decode_worker(), "d2");
  }
}

TEST(RequestFlowTest, DraftsAreCountedOverWorkers) {
  auto h = InState(FlowState::kDecoding);
  DecodeTokensEvent event;
  event.tokens.push_back(h->Token('x', 3));
  event.drafted = 4;
  event.accepted = 1;
  h->Event(h->decode(), event);
  h->LoseDecode();
  EXPECT_EQ(h->decode_worker(), "d2");
  h->Reserved();
  h->Started();
  h->EndToken();
  h->Finished(FinishReason::kStop);
  ASSERT_TRUE(h->report.has_value());
  EXPECT_EQ(h->report->drafted_tokens, 4u);
  EXPECT_EQ(h->report->accepted_tokens, 1u);
}

TEST(RequestFlowTest, TokensBeforeTheStartLoseTheWorker) {
  auto h = InState(FlowState::kReserving);
  h->Tokens("a");
  EXPECT_EQ(h->text, "");
  EXPECT_EQ(h->decode_worker(), "d2");
}

TEST(RequestFlowTest, ChangedLayoutIsSeenAtTheReservation) {
  auto h = InState(FlowState::kReserving);
  h->Event(h->decode(), DecodeReservedEvent{Epoch(2), 0, "other"});
  EXPECT_EQ(h->decode_worker(), "d2");
}

TEST(RequestFlowTest, EventsOfALeftStreamAreIgnored) {
  auto h = InState(FlowState::kDecoding);
  const StreamNumber old = h->decode();
  h->LoseDecode();
  DecodeTokensEvent late;
  late.tokens.push_back(h->Token('x', 3));
  h->Event(old, late);
  h->Event(old, WorkerClosed{absl::UnavailableError("again")});
  EXPECT_EQ(h->text, "abc");
  EXPECT_EQ(h->decode_worker(), "d2");
}

TEST(RequestFlowTest, WorkerLostAfterTheLastTokenIsNoLoss) {
  auto h = InState(FlowState::kDecoding);
  h->EndToken();
  h->LoseDecode();
  ASSERT_TRUE(h->report.has_value());
  EXPECT_EQ(h->report->finish_reason, FinishReason::kStop);
  EXPECT_EQ(h->report->resumes, 0u);
}

TEST(RequestFlowTest, EndWithoutTheWorkersAccountComesAfterAGrace) {
  auto h = InState(FlowState::kDecoding);
  h->EndToken();
  h->TickAtWake();
  EXPECT_TRUE(h->report.has_value());
}

TEST(RequestFlowTest, WorkerMayEndAtItsContext) {
  auto h = InState(FlowState::kDecoding);
  h->Finished(FinishReason::kLength);
  ASSERT_TRUE(h->report.has_value());
  EXPECT_EQ(h->report->finish_reason, FinishReason::kLength);
  EXPECT_EQ(h->report->completion_tokens, 3u);
}

TEST(RequestFlowTest, SilentWorkerThatFailsItsProbesIsLeft) {
  auto h = InState(FlowState::kDecoding);
  h->Tick(absl::Seconds(19));
  EXPECT_EQ(h->decode_worker(), "d1");
  h->Worker("d1").ready = false;
  h->Tick(absl::Seconds(2));
  EXPECT_EQ(h->decode_worker(), "d2");
  EXPECT_THAT(h->suspects, ElementsAre()) << "the probes know already";
}

TEST(RequestFlowTest, SilentWorkerThatAnswersProbesHasMoreTime) {
  auto h = InState(FlowState::kDecoding);
  h->Tick(absl::Seconds(60));
  EXPECT_EQ(h->decode_worker(), "d1");
  h->Tick(absl::Seconds(61));
  EXPECT_EQ(h->decode_worker(), "d2");
}

TEST(RequestFlowTest, SilentWorkerIsKeptIfThereIsNoOther) {
  auto h = InState(FlowState::kDecoding);
  h->Worker("d1").ready = false;
  h->Worker("d2").ready = false;
  h->Tick(absl::Seconds(100));
  EXPECT_EQ(h->decode_worker(), "d1");
  EXPECT_GT(h->flow.NextWake(), h->now) << "no busy loop";
  h->Tokens("d");
  EXPECT_EQ(h->text, "abcd") << "it went on";
}

TEST(RequestFlowTest, PrefillingIsNotSilence) {
  auto h = InState(FlowState::kPrefilling);
  h->Worker("d1").ready = false;
  h->Tick(absl::Seconds(200));
  EXPECT_EQ(h->decode_worker(), "d1");
  EXPECT_EQ(h->flow.state(), FlowState::kPrefilling);
}

}  // namespace
}  // namespace baton::gateway
