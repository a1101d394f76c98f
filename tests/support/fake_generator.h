// A Generator for tests of fronts: it records what it is asked to start and
// leaves the sink to the test, or to a script that answers at once.
#ifndef BATON_TESTS_SUPPORT_FAKE_GENERATOR_H_
#define BATON_TESTS_SUPPORT_FAKE_GENERATOR_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gateway/flow/generation.h"
#include "services/base/mutex.h"

namespace baton::gateway {

// Thread-safe.
class FakeGenerator final : public Generator {
 public:
  using Script =
      std::function<void(const GenerationSpec&, GenerationSink* sink)>;

  // Runs in Start; nullptr leaves the sink to the test.
  void SetScript(Script script) {
    MutexLock lock(&mutex_);
    script_ = std::move(script);
  }

  std::shared_ptr<GenerationHandle> Start(
      GenerationSpec spec, std::shared_ptr<GenerationSink> sink) override {
    auto handle = std::make_shared<Handle>(this, sink);
    Script script;
    {
      MutexLock lock(&mutex_);
      specs_.push_back(spec);
      sinks_.push_back(sink);
      script = script_;
      changed_.SignalAll();
    }
    if (script) script(spec, sink.get());
    return handle;
  }

  // Each waits up to 10 seconds; false if it did not happen.
  bool AwaitStarts(size_t count) {
    return Await([this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return specs_.size() >= count;
    });
  }
  bool AwaitCancels(size_t count) {
    return Await([this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return cancels_ >= count;
    });
  }

  GenerationSpec spec(size_t index) {
    MutexLock lock(&mutex_);
    return specs_.at(index);
  }
  std::shared_ptr<GenerationSink> sink(size_t index) {
    MutexLock lock(&mutex_);
    return sinks_.at(index);
  }
  size_t starts() {
    MutexLock lock(&mutex_);
    return specs_.size();
  }
  size_t cancels() {
    MutexLock lock(&mutex_);
    return cancels_;
  }

 private:
  class Handle final : public GenerationHandle {
   public:
    Handle(FakeGenerator* owner, std::shared_ptr<GenerationSink> sink)
        : owner_(owner), sink_(std::move(sink)) {}
    void Cancel() override {
      {
        MutexLock lock(&owner_->mutex_);
        if (std::exchange(cancelled_, true)) return;
      }
      sink_->OnError(absl::CancelledError("cancelled by its front"));
      MutexLock lock(&owner_->mutex_);
      ++owner_->cancels_;
      owner_->changed_.SignalAll();
    }

   private:
    FakeGenerator* const owner_;
    const std::shared_ptr<GenerationSink> sink_;
    bool cancelled_ = false;  // under owner_->mutex_
  };

  bool Await(const std::function<bool()>& condition) {
    const absl::Time end = absl::Now() + absl::Seconds(10);
    MutexLock lock(&mutex_);
    while (!condition()) {
      if (absl::Now() >= end) return false;
      changed_.WaitWithTimeout(&mutex_, end - absl::Now());
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  std::vector<GenerationSpec> specs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<GenerationSink>> sinks_ ABSL_GUARDED_BY(mutex_);
  size_t cancels_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton::gateway

#endif  // BATON_TESTS_SUPPORT_FAKE_GENERATOR_H_
