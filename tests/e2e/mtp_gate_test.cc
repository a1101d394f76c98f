// The MTP block over real processes: its rows travel with the baton. A decode
// worker that took a prompt over, found it in its pool, or got it from the
// store after everybody died, drafts exactly what one process drafts, from the
// first draft on; and the text is the text without drafts.
#include <gtest/gtest.h>
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "services/gguf/gguf_header.h"
#include "services/text/tokenizer.h"
#include "tests/support/cluster_process.h"
#include "tests/support/token_client.h"

namespace baton {
namespace {

using testing_support::ClusterProcess;
using testing_support::CompleteAll;
using testing_support::TokenAnswer;
using testing_support::TokenRequest;

struct Drafts {
  double drafted = 0, accepted = 0;
  bool operator==(const Drafts&) const = default;
};
Drafts operator-(const Drafts& a, const Drafts& b) {
  return {a.drafted - b.drafted, a.accepted - b.accepted};
}
std::ostream& operator<<(std::ostream& out, const Drafts& drafts) {
  return out << drafts.accepted << " of " << drafts.drafted;
}

class MtpGate : public testing::Test {
 protected:
  static std::unique_ptr<ClusterProcess> Start(bool one, bool drafts = true) {
    ClusterProcess::Options options;
    options.model = BATON_DEMO_MODEL;
    options.prefill = one ? 0 : 1;
    options.kvstore = !one;
    options.more = {"--threads", "1", "--kv-memory", "256MiB"};
    if (drafts) {
      for (const char* flag :
           {"--mtp-model=" BATON_DEMO_MTP, "--draft-mode=mtp",
            "--no-draft-adaptive", "--draft-max=3"}) {
        options.more.push_back(absl::StrCat("--worker-flag=", flag));
      }
    }
    auto cluster = ClusterProcess::Start(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return cluster.ok() ? std::move(*cluster) : nullptr;
  }

  // Chats, longer and shorter than a block and two.
  static std::vector<TokenRequest> Requests() {
    const auto header = *gguf::GgufHeader::FromFile(BATON_DEMO_MODEL);
    const auto tokenizer = *text::Tokenizer::Create(*header);
    std::vector<TokenRequest> requests;
    const char* const questions[] = {
        "What is the capital of France?",
        "Write a Python function that reverses a list, and explain each line "
        "of it in plain words for somebody who has never seen any code.",
        "Give me three tips for better sleep.",
        "Explain how a bicycle stays upright. Begin with what everybody "
        "notices when learning to ride: it falls when it stands still and "
        "does not when it rolls. Then say which forces act on the wheels and "
        "on the frame, what steering has to do with it, why the front fork "
        "leans back, and what happens on ice. Do not use any formulas. End "
        "with one sentence that a child of ten would understand and would "
        "like to tell to a friend at school the next day.",
    };
    for (const char* question : questions) {
      TokenRequest request;
      request.prompt =
          tokenizer->Encode(absl::StrCat("<|im_start|>user\n", question,
                                         "<|im_end|>\n<|im_start|>assistant\n"),
                            false, true);
      request.max_tokens = 48;
      request.logprobs = true;
      requests.push_back(request);
      request.temperature = 0.8f;
      requests.push_back(request);
    }
    return requests;
  }

  static std::vector<TokenAnswer> OneByOne(
      ClusterProcess* cluster, const std::vector<TokenRequest>& requests) {
    std::vector<TokenAnswer> answers;
    for (const TokenRequest& request : requests) {
      answers.push_back(Complete(cluster->completions(), request));
      EXPECT_TRUE(answers.back().status.ok()) << answers.back().status;
    }
    return answers;
  }

  static Drafts Count(const ClusterProcess& cluster) {
    const auto metric = [&](const char* name) {
      return cluster.Metric("decode", absl::StrCat("baton_spec_decode_", name,
                                                   "{method=\"mtp\""));
    };
    return {metric("draft_tokens_total"), metric("accepted_tokens_total")};
  }
  static double Losses(const ClusterProcess& cluster) {
    return cluster.Metric("decode", "baton_draft_state_losses_total") +
           cluster.Metric("prefill", "baton_draft_state_losses_total");
  }

  static void ExpectSame(const std::vector<TokenAnswer>& expected,
                         const std::vector<TokenAnswer>& actual,
                         const char* what) {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(expected[i].Essence(), actual[i].Essence()) << what << " " << i;
    }
  }
};

TEST_F(MtpGate, DraftsAreThoseOfOneProcess) {
  const auto requests = Requests();
  std::vector<TokenAnswer> expected;
  {
    const auto plain = Start(/*one=*/true, /*drafts=*/false);
    ASSERT_NE(plain, nullptr);
    expected = OneByOne(plain.get(), requests);
    EXPECT_EQ(Count(*plain).drafted, -1);
  }
  Drafts one_process;
  {
    const auto one = Start(/*one=*/true);
    ASSERT_NE(one, nullptr);
    ExpectSame(expected, OneByOne(one.get(), requests), "one process");
    one_process = Count(*one);
    EXPECT_GT(one_process.accepted, 0);
    EXPECT_GT(one_process.drafted, one_process.accepted);
  }
  const auto cluster = Start(/*one=*/false);
  ASSERT_NE(cluster, nullptr);
  ExpectSame(expected, OneByOne(cluster.get(), requests), "cold");
  const Drafts cold = Count(*cluster);
  EXPECT_EQ(cold, one_process);
  const auto again = OneByOne(cluster.get(), requests);
  ExpectSame(expected, again, "warm");
  const Drafts warm = Count(*cluster);
  EXPECT_EQ(warm - cold, cold);
  // Each answer says what was drafted for it, and they add up.
  Drafts reported;
  for (const TokenAnswer& answer : again) {
    reported.drafted += answer.drafted;
    reported.accepted += answer.accepted;
  }
  EXPECT_EQ(reported, cold);
  // A request may do without.
  TokenRequest without = requests[0];
  without.speculation = "none";
  const TokenAnswer plain = Complete(cluster->completions(), without);
  EXPECT_EQ(plain.Essence(), expected[0].Essence());
  EXPECT_EQ(plain.drafted, 0u);
  ExpectSame(expected, CompleteAll(cluster->completions(), requests),
             "all at once");
  EXPECT_EQ(Count(*cluster) - warm, cold);
  EXPECT_EQ(Losses(*cluster), 0);
  for (const char* role : {"prefill", "decode"}) {
    const pid_t pid = cluster->Pid(role);
    ASSERT_GT(pid, 0);
    kill(pid, SIGKILL);
    ASSERT_TRUE(cluster->AwaitRestart(role, pid, absl::Seconds(20)));
  }
  ASSERT_TRUE(testing_support::Await(
      [&] {
        return cluster->Metric("gateway", "baton_worker_up") == 2 &&
               cluster->AwaitReady(absl::ZeroDuration());
      },
      absl::Seconds(30)));
  const auto stored = OneByOne(cluster.get(), requests);
  ExpectSame(expected, stored, "from the store");
  EXPECT_GT(stored[stored.size() - 2].store, 0u);
  EXPECT_EQ(Count(*cluster), cold);
  EXPECT_EQ(Losses(*cluster), 0);
}

}  // namespace
}  // namespace baton
