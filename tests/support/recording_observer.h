// A SequenceObserver that writes down what it is told. Thread-safe.
#ifndef BATON_TESTS_SUPPORT_RECORDING_OBSERVER_H_
#define BATON_TESTS_SUPPORT_RECORDING_OBSERVER_H_

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "services/base/mutex.h"
#include "worker/engine/engine.h"

namespace baton::worker {

class RecordingObserver final : public SequenceObserver {
 public:
  struct Record {
    std::vector<std::pair<uint32_t, uint32_t>> progress;
    std::vector<uint32_t> full_blocks;
    std::vector<kvstore::BlockKey> keys;
    std::vector<TokenId> tokens;
    std::vector<uint32_t> positions;
    std::vector<SampledToken> sampled;
    std::optional<absl::StatusOr<FinishReason>> result;
    int finished_calls = 0;
    SequenceTimings timings;
    uint32_t kv_tokens = 0;
    // The final handles, if kept.
    std::vector<BlockRef> blocks;
  };

  // `keep_blocks`: hold the handles given to OnFinished.
  explicit RecordingObserver(bool keep_blocks = false)
      : keep_blocks_(keep_blocks) {}

  // Called after each token is written down; set before submission.
  std::function<void()> on_tokens;

  Record Get() const {
    MutexLock lock(&mutex_);
    return record_;
  }
  Record AwaitFinished() const {
    MutexLock lock(&mutex_);
    while (!record_.result) changed_.Wait(&mutex_);
    return record_;
  }
  void AwaitTokens(size_t count) const {
    MutexLock lock(&mutex_);
    while (record_.tokens.size() < count) changed_.Wait(&mutex_);
  }
  void DropBlocks() {
    MutexLock lock(&mutex_);
    record_.blocks.clear();
  }

  void OnProgress(uint32_t processed, uint32_t total) override {
    MutexLock lock(&mutex_);
    record_.progress.emplace_back(processed, total);
  }
  void OnBlockFull(uint32_t index, const kvstore::BlockKey& key,
                   const BlockRef& block) override {
    MutexLock lock(&mutex_);
    record_.full_blocks.push_back(index);
    record_.keys.push_back(key);
  }
  void OnTokens(const std::vector<CommittedToken>& tokens) override {
    {
      MutexLock lock(&mutex_);
      for (const CommittedToken& token : tokens) {
        record_.tokens.push_back(token.sampled.token);
        record_.positions.push_back(token.position);
        record_.sampled.push_back(token.sampled);
      }
      changed_.SignalAll();
    }
    if (on_tokens) on_tokens();
  }
  void OnFinished(const absl::StatusOr<FinishReason>& result,
                  const SequenceTimings& timings,
                  const std::vector<BlockRef>& blocks,
                  uint32_t kv_tokens) override {
    MutexLock lock(&mutex_);
    record_.result = result;
    ++record_.finished_calls;
    record_.timings = timings;
    record_.kv_tokens = kv_tokens;
    if (keep_blocks_) record_.blocks = blocks;
    changed_.SignalAll();
  }

 private:
  const bool keep_blocks_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Record record_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton::worker

#endif  // BATON_TESTS_SUPPORT_RECORDING_OBSERVER_H_
