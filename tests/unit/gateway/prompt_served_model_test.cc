#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/prompt/served_model.h"
#include "kvstore/block/block_key.h"
#include "services/base/error_details.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/services/text_vocabulary_bytes.h"

namespace baton::gateway {
namespace {

using ::testing::HasSubstr;

// Answers at once.
class FakeHeaders final : public HeaderSource {
 public:
  void Fetch(const std::string&,
             std::function<void(absl::StatusOr<std::string>)> done) override {
    ++fetches;
    done(answer);
  }
  absl::StatusOr<std::string> answer;
  int fetches = 0;
};

class InlineExecutor final : public Executor {
 public:
  bool Post(std::function<void()> task) override {
    task();
    return true;
  }
  bool PostAfter(absl::Duration, std::function<void()>) override {
    return false;
  }
  bool stopped() const override { return false; }
};

std::string Header(const std::string& pre) {
  text::SmallVocabulary vocabulary;
  vocabulary.architecture = "llama";
  vocabulary.pre = pre;
  return vocabulary.Bytes();
}

class ModelTrackerTest : public ::testing::Test {
 protected:
  // A worker with the model of `header` reports; `sent` is what it sends.
  void Report(const std::string& header, absl::StatusOr<std::string> sent) {
    WorkerFacts facts;
    facts.model_name = "m";
    facts.header_digest = kvstore::Sha256(header).Raw();
    facts.model_digest = facts.header_digest;
    headers_.answer = std::move(sent);
    tracker_->OnFacts("a:1", facts);
  }
  void Report(const std::string& header) { Report(header, header); }
  absl::Status Error() { return ResolveModel(*tracker_, "").status(); }

  FakeHeaders headers_;
  InlineExecutor executor_;
  ManualClock clock_;
  std::shared_ptr<ModelTracker> tracker_ =
      ModelTracker::Create({}, &headers_, &executor_, &clock_, nullptr);
};

TEST_F(ModelTrackerTest, UnusableModelSaysWhyAndIsAskedForOnce) {
  EXPECT_EQ(ErrorReason(Error()), "model_loading");
  for (int round = 0; round < 3; ++round) {
    Report(Header("no-such"));
    EXPECT_EQ(tracker_->Current(), nullptr);
    EXPECT_TRUE(absl::IsUnavailable(Error()));
    EXPECT_EQ(ErrorReason(Error()), "model_unusable");
    EXPECT_THAT(std::string(Error().message()), HasSubstr("no-such"));
  }
  EXPECT_EQ(headers_.fetches, 1);
}

TEST_F(ModelTrackerTest, BytesThatAreNoHeaderAreUnusableToo) {
  Report("rubbish");
  EXPECT_EQ(ErrorReason(Error()), "model_unusable");
}

TEST_F(ModelTrackerTest, TransferThatFailedIsTriedAgain) {
  const std::string header = Header("smollm");
  Report(header, absl::UnavailableError("gone"));
  EXPECT_EQ(ErrorReason(Error()), "model_loading");
  Report(header, header + "x");
  EXPECT_EQ(ErrorReason(Error()), "model_loading");
  Report(header);
  EXPECT_TRUE(Error().ok());
  EXPECT_EQ(headers_.fetches, 3);
  Report(header);
  EXPECT_EQ(headers_.fetches, 3) << "it is the current one";
}

TEST_F(ModelTrackerTest, UnusableModelReplacesTheOneBeforeAndAGoodOneIt) {
  Report(Header("smollm"));
  EXPECT_TRUE(Error().ok());
  Report(Header("no-such"));
  EXPECT_EQ(ErrorReason(Error()), "model_unusable");
  Report(Header("smollm"));
  EXPECT_TRUE(Error().ok());
  EXPECT_TRUE(tracker_->Problem().ok());
  Report(Header("no-such"));
  EXPECT_EQ(ErrorReason(Error()), "model_unusable");
}

}  // namespace
}  // namespace baton::gateway
