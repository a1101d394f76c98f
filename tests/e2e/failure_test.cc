// Any process may die at any moment: kill -9 and SIGSTOP of each process at
// several moments of a request, under `baton up`. The stream completes with
// the tokens of an undisturbed run, and what was reserved comes back.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/cluster_process.h"
#include "tests/support/token_client.h"

namespace baton {
namespace {

using testing_support::Await;
using testing_support::ClusterProcess;
using testing_support::Complete;
using testing_support::RandomPrompt;
using testing_support::TokenAnswer;
using testing_support::TokenRequest;

class Failure : public testing::Test {
 protected:
  void SetUp() override {
    ClusterProcess::Options options;
    // The demo model: slow enough that a request has moments to hit.
    options.model = BATON_DEMO_MODEL;
    options.more = {"--threads", "1",           "--kv-memory",
                    "512MiB",    "--lease-ttl", "2s"};
    auto cluster = ClusterProcess::Start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = std::move(*cluster);
  }

  TokenRequest Request(uint64_t seed) {
    TokenRequest request;
    request.prompt = RandomPrompt(seed, 200);
    request.max_tokens = 48;
    request.temperature = 0.8f;
    request.seed = seed;
    request.ignore_eos = true;
    return request;
  }

  void AwaitWhole() {
    ASSERT_TRUE(Await(
        [&] {
          return cluster_->Metric("gateway", "baton_worker_up") == 2 &&
                 cluster_->AwaitReady(absl::ZeroDuration()) &&
                 cluster_->Metric("kvstore", "baton_kv_store_leases") >= 0;
        },
        absl::Seconds(30)));
  }

  // Leases, running and waiting sequences and in-flight counts are zero again.
  void ExpectAllReturned() {
    EXPECT_TRUE(Await(
        [&] {
          return cluster_->Metric("kvstore", "baton_kv_store_leases") == 0 &&
                 cluster_->Metric("decode", "baton_requests_running") == 0 &&
                 cluster_->Metric("prefill", "baton_requests_running") == 0 &&
                 cluster_->Metric("decode", "baton_requests_waiting") == 0 &&
                 cluster_->Metric("gateway", "baton_requests_inflight") == 0;
        },
        absl::Seconds(5)))
        << "leases " << cluster_->Metric("kvstore", "baton_kv_store_leases")
        << " decode running "
        << cluster_->Metric("decode", "baton_requests_running")
        << " prefill running "
        << cluster_->Metric("prefill", "baton_requests_running")
        << " in flight "
        << cluster_->Metric("gateway", "baton_requests_inflight");
  }

  // Runs the request once undisturbed, then, with another prompt of the same
  // kind for each moment, with `signal` sent to `role` at that moment.
  void Disturb(const std::string& role, int signal) {
    // Moments: 0 = soon after the start (prompt is being read), 1 = at the
    // first token (handoff), 2 = in mid-stream.
    for (int moment = 0; moment < 3; ++moment) {
      SCOPED_TRACE(absl::StrCat(role, " moment ", moment));
      const TokenRequest request = Request(1000 + 10 * moment);
      AwaitWhole();
      const TokenAnswer disturbed = RunDisturbed(request, role, signal, moment);
      ASSERT_TRUE(disturbed.status.ok()) << disturbed.status;
      AwaitWhole();
      const TokenAnswer calm = Complete(cluster_->completions(), request);
      ASSERT_TRUE(calm.status.ok()) << calm.status;
      EXPECT_EQ(calm.Essence(), disturbed.Essence());
      EXPECT_EQ(disturbed.tokens.size(), request.max_tokens);
      ExpectAllReturned();
    }
  }

  TokenAnswer RunDisturbed(const TokenRequest& request, const std::string& role,
                           int signal, int moment) {
    const pid_t pid = cluster_->Pid(role);
    EXPECT_GT(pid, 0);
    std::jthread killer;
    if (moment == 0) {
      killer = std::jthread([this, role, pid, signal] {
        // The prompt has begun when the prefill worker runs a sequence.
        Await(
            [&] {
              return cluster_->Metric("prefill", "baton_requests_running") > 0;
            },
            absl::Seconds(2));
        kill(pid, signal);
      });
    }
    return Complete(cluster_->completions(), request, [&](size_t count) {
      if ((moment == 1 && count == 1) || (moment == 2 && count == 16)) {
        kill(pid, signal);
      }
    });
  }

  std::unique_ptr<ClusterProcess> cluster_;
};

TEST_F(Failure, KilledPrefillWorkerCostsNoToken) {
  Disturb("prefill", SIGKILL);
}
TEST_F(Failure, KilledStoreCostsNoToken) { Disturb("kvstore", SIGKILL); }
TEST_F(Failure, KilledDecodeWorkerCostsNoToken) { Disturb("decode", SIGKILL); }

// A stopped process answers nothing and closes nothing: the client gets the
// right text (another holder, or recomputation) or a clear status in time.
class Stopped : public Failure,
                public testing::WithParamInterface<const char*> {};

TEST_P(Stopped, ClientGetsTheTextOrAClearStatusInTime) {
  AwaitWhole();
  TokenRequest request = Request(2000);
  const TokenAnswer calm = Complete(cluster_->completions(), request);
  ASSERT_TRUE(calm.status.ok()) << calm.status;
  const pid_t pid = cluster_->Pid(GetParam());
  ASSERT_GT(pid, 0);
  request.prompt = RandomPrompt(2001, 200);
  request.deadline = absl::Seconds(12);
  const absl::Time start = absl::Now();
  kill(pid, SIGSTOP);
  const TokenAnswer answer = Complete(cluster_->completions(), request);
  kill(pid, SIGCONT);
  EXPECT_LT(absl::Now() - start, absl::Seconds(14));
  if (!answer.status.ok()) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status) ||
                absl::IsUnavailable(answer.status))
        << answer.status;
  }
  AwaitWhole();
  request.deadline = absl::Seconds(60);
  const TokenAnswer again = Complete(cluster_->completions(), request);
  ASSERT_TRUE(again.status.ok()) << again.status;
  // Whatever came before the end is a prefix of the true answer.
  ASSERT_LE(answer.tokens.size(), again.tokens.size());
  EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(),
                         again.tokens.begin()));
  ExpectAllReturned();
}

INSTANTIATE_TEST_SUITE_P(Each, Stopped,
                         testing::Values("prefill", "kvstore", "decode"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace baton
