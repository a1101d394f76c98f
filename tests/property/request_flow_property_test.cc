// Random workers under random faults: whatever happens, the client gets
// exactly one end, and every token once and in order. The tokens that any
// worker gives are a function of the position, as strict numerics promise.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "tests/support/flow_harness.h"

namespace baton::gateway {
namespace {

using testing_support::FlowHarness;
using testing_support::kFakeEnd;
using testing_support::MakeSpec;
using testing_support::MakeWorker;

constexpr uint32_t kAnswer = 12;

// The one answer to the prompt: letters, then the end token.
TokenId AnswerToken(uint32_t index) {
  return index + 1 < kAnswer ? static_cast<TokenId>('a' + index) : kFakeEnd;
}

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed)
      : random_(seed), harness_(Spec(), Workers()) {}

  void Run() {
    harness_.Admit();
    for (int step = 0; step < 5000 && !harness_.flow.ended(); ++step) {
      Step();
      CheckTokens();
    }
    ASSERT_TRUE(harness_.flow.ended()) << "never ended";
    EXPECT_NE(harness_.report.has_value(), harness_.error.has_value());
    if (harness_.error.has_value() && harness_.now >= deadline_) {
      EXPECT_TRUE(absl::IsDeadlineExceeded(*harness_.error) ||
                  absl::IsCancelled(*harness_.error))
          << *harness_.error;
    }
    if (harness_.report.has_value()) {
      EXPECT_EQ(harness_.tokens.size(), kAnswer);
      EXPECT_EQ(harness_.report->completion_tokens, kAnswer);
      EXPECT_EQ(harness_.text, harness_.tokens_text());
    }
    // Late events of any stream must change nothing.
    for (const auto& [number, stream] : harness_.streams) {
      harness_.Event(number, WorkerClosed{absl::UnavailableError("late")});
    }
  }
  bool answered() const { return harness_.report.has_value(); }
  bool timed_out() const {
    return harness_.error.has_value() &&
           absl::IsDeadlineExceeded(*harness_.error);
  }
  uint32_t resumes() const {
    return harness_.report.has_value() ? harness_.report->resumes : 0;
  }

 private:
  // One request in four has a deadline that may fall into any state.
  GenerationSpec Spec() {
    GenerationSpec spec = MakeSpec("prompt", 100);
    if (Pick(4) == 0) {
      spec.deadline = spec.arrival + absl::Milliseconds(Pick(1000));
    }
    deadline_ = spec.deadline;
    return spec;
  }
  std::vector<WorkerSnapshot> Workers() {
    std::vector<WorkerSnapshot> workers;
    for (int i = 0; i < Pick(3); ++i) {
      workers.push_back(
          MakeWorker("p" + std::to_string(i), WorkerRole::kPrefill));
    }
    for (int i = 0; i < 1 + Pick(3); ++i) {
      workers.push_back(
          MakeWorker("d" + std::to_string(i), WorkerRole::kDecode));
    }
    return workers;
  }
  int Pick(int n) { return static_cast<int>(random_() % n); }

  void CheckTokens() {
    for (size_t i = 0; i < harness_.tokens.size(); ++i) {
      ASSERT_EQ(harness_.tokens[i], AnswerToken(static_cast<uint32_t>(i)));
    }
  }

  absl::Status RandomFault() {
    switch (Pick(10)) {
      case 0:
        return absl::AbortedError("x");
      case 1:
        return absl::InternalError("x");
      case 2:
        return absl::ResourceExhaustedError("x");
      case 3:
        return absl::OkStatus();
      case 4:
        return absl::DataLossError("x");
      case 5:
        return Pick(20) == 0 ? absl::InvalidArgumentError("x")
                             : absl::NotFoundError("x");
      case 6:
        return absl::DeadlineExceededError("x");
      case 7:
        return absl::CancelledError("x");
      default:
        return absl::UnavailableError("x");
    }
  }

  void Step() {
    for (WorkerSnapshot& worker : harness_.cluster.workers) {
      if (Pick(20) == 0) worker.ready = Pick(3) > 0;
    }
    harness_.now += absl::Milliseconds(Pick(50));
    const int what = Pick(100);
    if (what < 2) {
      harness_.TickAtWake();
    } else if (what < 3 && Pick(10) == 0) {
      harness_.Cancel();
    } else {
      StepStream();
    }
    // The runner's timer is late now and then.
    if (!harness_.flow.ended() && Pick(3) > 0 &&
        harness_.now >= harness_.flow.NextWake()) {
      harness_.Tick(absl::ZeroDuration());
    }
  }

  void StepStream() {
    std::vector<StreamNumber> open;
    for (const auto& [number, stream] : harness_.streams) {
      if (stream.open && over_.count(number) == 0) open.push_back(number);
    }
    if (open.empty()) {
      harness_.TickAtWake();
      return;
    }
    const StreamNumber number = open[Pick(static_cast<int>(open.size()))];
    if (Pick(14) == 0) {
      over_.insert(number);
      harness_.Event(number, WorkerClosed{RandomFault()});
      return;
    }
    if (harness_.at(number).decode) {
      StepDecode(number);
    } else {
      StepPrefill(number);
    }
  }

  // A worker's next lawful event, or now and then an unlawful one.
  void StepDecode(StreamNumber number) {
    const auto& stream = harness_.at(number);
    if (!stream.start.has_value()) {
      if (reserved_.insert(number).second) {
        harness_.Event(number, DecodeReservedEvent{Epoch(1), 0, "layout"});
      }
      return;
    }
    auto it = next_.find(number);
    if (it == next_.end()) {
      next_[number] = static_cast<uint32_t>(stream.start->committed.size());
      harness_.Event(number, DecodeStartedEvent{});
      return;
    }
    uint32_t& next = it->second;
    if (next >= kAnswer) {
      over_.insert(number);
      harness_.Event(number, DecodeFinishedEvent{FinishReason::kStop});
      return;
    }
    DecodeTokensEvent event;
    const int count = 1 + Pick(3);
    for (int i = 0; i < count && next < kAnswer; ++i) {
      PositionedToken token = harness_.Token(0, next);
      token.token.token = AnswerToken(next++);
      event.tokens.push_back(token);
    }
    if (Pick(30) == 0) event.tokens[0].position += 1 + Pick(2);
    harness_.Event(number, event);
  }

  void StepPrefill(StreamNumber number) {
    uint32_t& stage = next_[number];
    if (stage == 0) {
      harness_.Event(number, WorkerProgress{3, 6});
    } else if (stage == 1) {
      FirstTokenReady first;
      first.token = harness_.Token('a', 0);
      harness_.Event(number, first);
    } else if (stage == 2) {
      harness_.Event(number, ManifestReady{"m"});
    } else {
      over_.insert(number);
      harness_.Event(number, WorkerClosed{absl::OkStatus()});
    }
    ++stage;
  }

  std::mt19937_64 random_;
  absl::Duration deadline_;
  FlowHarness harness_;
  std::set<StreamNumber> over_;
  std::set<StreamNumber> reserved_;
  std::map<StreamNumber, uint32_t> next_;
};

TEST(RequestFlowPropertyTest, OneEndAndEveryTokenOnce) {
  const char* fixed = std::getenv("BATON_TEST_SEED");
  const uint64_t first =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : 1;
  const uint64_t last = fixed != nullptr ? first : 3000;
  uint32_t answered = 0;
  uint32_t resumed = 0;
  uint32_t timed_out = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("BATON_TEST_SEED=" + std::to_string(seed));
    RandomRun run(seed);
    run.Run();
    if (::testing::Test::HasFailure()) return;
    answered += run.answered();
    resumed += run.resumes() > 0;
    timed_out += run.timed_out();
  }
  if (fixed == nullptr) {
    // Else the test would prove nothing.
    EXPECT_GT(answered, 1500u);
    EXPECT_GT(resumed, 500u);
    EXPECT_GT(timed_out, 100u);
  }
}

}  // namespace
}  // namespace baton::gateway
