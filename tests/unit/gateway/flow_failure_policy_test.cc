// What ends one request only, what is retried, and what makes a worker suspect
// for everybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "gateway/flow/failure_policy.h"
#include "gateway/flow/request_flow.h"
#include "services/base/error_details.h"
#include "tests/support/flow_harness.h"
#include "tests/support/flow_states.h"

namespace baton::gateway {
namespace {

using ::testing::ElementsAre;
using testing_support::InState;
using testing_support::kWithDecode;
using testing_support::MakeSpec;

// The request's timer and its workers' streams see the same deadline; either
// may come first, and the streams may call it by any of these names.
TEST(FailurePolicyTest, OwnDeadlineIsNoFaultOfAWorkerInEitherOrder) {
  const absl::Duration deadline = absl::Seconds(700);
  struct Ending {
    absl::Status status;
    absl::Duration at;
  };
  const Ending endings[] = {
      {absl::DeadlineExceededError("x"), deadline - kDeadlineMargin},
      {absl::CancelledError("x"), deadline - kDeadlineMargin},
      {absl::DeadlineExceededError("x"), deadline},
      {absl::CancelledError("x"), deadline},
      {absl::UnavailableError("x"), deadline},
      {absl::InternalError("x"), deadline},
      {absl::OkStatus(), deadline},
      {absl::DeadlineExceededError("x"), deadline + absl::Seconds(3)},
      {absl::UnavailableError("x"), deadline + absl::Seconds(3)},
  };
  for (const FlowState state : kWithDecode) {
    for (const Ending& ending : endings) {
      for (const bool of_prefill : {false, true}) {
        for (const bool timer_first : {false, true}) {
          if (of_prefill && state != FlowState::kPrefilling) continue;
          SCOPED_TRACE(absl::StrCat(FlowStateName(state), " ",
                                    ending.status.ToString(), of_prefill,
                                    timer_first));
          auto h = InState(state);
          const StreamNumber stream = of_prefill ? h->prefill() : h->decode();
          if (timer_first) {
            h->now = deadline;
            h->Tick(absl::ZeroDuration());
            ASSERT_TRUE(h->error.has_value());
          }
          h->now = ending.at;
          h->Event(stream, WorkerClosed{ending.status});
          h->now = deadline + absl::Seconds(4);
          h->Tick(absl::ZeroDuration());
          ASSERT_TRUE(h->error.has_value());
          EXPECT_TRUE(absl::IsDeadlineExceeded(*h->error)) << *h->error;
          EXPECT_EQ(ErrorReason(*h->error), "deadline");
          EXPECT_THAT(h->suspects, ElementsAre());
          EXPECT_THAT(h->retries, ElementsAre());
        }
      }
    }
  }
}

TEST(FailurePolicyTest, OwnCancelIsNoFaultOfAWorker) {
  for (const FlowState state : kWithDecode) {
    for (const absl::Status& status :
         {absl::CancelledError("x"), absl::DeadlineExceededError("x"),
          absl::UnavailableError("x")}) {
      auto h = InState(state);
      const StreamNumber decode = h->decode();
      const StreamNumber prefill = h->prefill();
      h->Cancel();
      h->Event(decode, WorkerClosed{status});
      if (prefill != 0) h->Event(prefill, WorkerClosed{status});
      EXPECT_TRUE(absl::IsCancelled(*h->error)) << *h->error;
      EXPECT_THAT(h->suspects, ElementsAre());
      EXPECT_THAT(h->retries, ElementsAre());
    }
  }
}

TEST(FailurePolicyTest, StreamsOutliveTheDeadlineThatTheTimerKeeps) {
  const GenerationSpec spec = MakeSpec("prompt", 10);
  EXPECT_GT(StreamTimeout(spec, spec.arrival), spec.deadline - spec.arrival);
  EXPECT_GT(kStreamSlack, 10 * kDeadlineMargin);
}

TEST(FailurePolicyTest, OnlyConnectionLossMakesAWorkerSuspect) {
  for (const absl::Status& status :
       {absl::InternalError("x"), absl::CancelledError("x"),
        absl::DeadlineExceededError("x"), absl::AbortedError("x"),
        absl::ResourceExhaustedError("x"), absl::DataLossError("x"),
        absl::OkStatus(), absl::UnavailableError("x"),
        absl::UnknownError("x")}) {
    const bool lost = absl::IsUnavailable(status) || absl::IsUnknown(status);
    for (const FlowState state : kWithDecode) {
      auto h = InState(state);
      h->LoseDecode(status);
      EXPECT_EQ(h->suspects, std::vector<std::string>(lost ? 1 : 0, "d1"))
          << status;
      EXPECT_THAT(h->retries, ElementsAre("decode"));
    }
    auto h = InState(FlowState::kPrefilling);
    h->LosePrefill(status);
    EXPECT_EQ(h->suspects, std::vector<std::string>(lost ? 1 : 0, "p1"))
        << status;
    EXPECT_THAT(h->retries, ElementsAre("prefill"));
  }
}

TEST(FailurePolicyTest, SequenceThatAWorkerGaveUpMakesItNotSuspect) {
  auto h = InState(FlowState::kDecoding);
  h->Finished(FinishReason::kAborted);
  EXPECT_EQ(h->decode_worker(), "d2");
  EXPECT_THAT(h->suspects, ElementsAre());
}

TEST(FailurePolicyTest, FullWorkerIsNotCalledLost) {
  auto h = InState(FlowState::kReserving);
  h->LoseDecode(absl::ResourceExhaustedError("no slot"));
  EXPECT_EQ(h->full, 1u);
  EXPECT_EQ(h->decode_worker(), "d2");
  h->LoseDecode(absl::InternalError("x"));
  EXPECT_EQ(h->full, 1u);
  EXPECT_THAT(h->retries, ElementsAre("decode", "decode"));
}

}  // namespace
}  // namespace baton::gateway
