#include "worker/engine/engine.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "services/base/checked_math.h"
#include "services/base/error_details.h"
#include "services/base/mutex.h"
#include "services/base/status_macros.h"
#include "worker/engine/device_loop.h"

namespace baton::worker {
namespace {

// How often blocks are looked for while everything waits for blocks that are
// held outside the engine (an import, a transfer): the pool calls nobody.
constexpr absl::Duration kStallCheck = absl::Milliseconds(5);

absl::Status Invalid(absl::string_view field, absl::string_view why) {
  return WithField(absl::InvalidArgumentError(absl::StrCat(field, ": ", why)),
                   field);
}

// The thread around a DeviceLoop, and its inbox.
class DeviceThreadEngine final : public Engine {
 public:
  DeviceThreadEngine(const Options& options, Forward* forward, BlockPool* pool,
                     const Clock* clock, telemetry::MetricsRegistry* metrics,
                     Drafter* drafter)
      : options_(options),
        vocabulary_(forward->vocabulary()),
        context_length_(forward->context_length()),
        pool_(pool),
        clock_(clock),
        metrics_(metrics, options.model_name, options.kv_dtype, *pool, drafter),
        loop_(options, forward, pool, clock, &metrics_, drafter),
        thread_([this] { RunDeviceThread(); }) {}

  ~DeviceThreadEngine() override { Stop(); }

  absl::StatusOr<SequenceId> Submit(
      SequenceSpec spec, std::shared_ptr<SequenceObserver> observer) override {
    if (observer == nullptr) return Invalid("observer", "is missing");
    BATON_RETURN_IF_ERROR(Check(spec));
    BATON_RETURN_IF_ERROR(CheckRestored(spec));
    CommitRules rules(spec.stop, options_.eos_tokens, context_length_);
    const SequenceId id(next_id_.fetch_add(1));
    auto sequence = std::make_unique<LiveSequence>(
        id, std::move(spec), std::move(observer), std::move(rules), pool_,
        clock_->Monotonic());
    MutexLock lock(&mutex_);
    if (stopping_) return absl::UnavailableError("the worker is stopping");
    if (submitted_.size() + load_.waiting >= options_.max_waiting) {
      return WithRetryAfter(
          absl::ResourceExhaustedError("the worker's queue is full"),
          absl::Seconds(1));
    }
    live_.insert(id);
    submitted_.push_back(std::move(sequence));
    changed_.SignalOne();
    return id;
  }

  void Cancel(SequenceId id) override {
    MutexLock lock(&mutex_);
    // Only ids that live are kept, so the set is bounded.
    if (!live_.contains(id)) return;
    cancelled_.insert(id);
    changed_.SignalOne();
  }

  EngineLoad Load() const override {
    MutexLock lock(&mutex_);
    EngineLoad load = load_;
    load.waiting += static_cast<uint32_t>(submitted_.size());
    return load;
  }

  void Stop() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalOne();
    }
    std::call_once(joined_, [this] { thread_.join(); });
  }

 private:
  struct Inbox {
    bool stopping = false;
    std::vector<std::unique_ptr<LiveSequence>> submitted;
    absl::flat_hash_set<SequenceId> cancelled;
  };

  absl::Status Check(const SequenceSpec& spec) const {
    if (spec.tokens.empty() || spec.prompt_tokens == 0) {
      return Invalid("tokens", "a prompt of at least one token is needed");
    }
    if (spec.prompt_tokens > spec.tokens.size()) {
      return Invalid("prompt_tokens", "more than there are tokens");
    }
    for (TokenId token : spec.tokens) {
      if (token < 0 || static_cast<uint32_t>(token) >= vocabulary_) {
        return Invalid("tokens",
                       absl::StrCat("token ", token, " is out of range"));
      }
    }
    if (spec.tokens.size() >= context_length_) {
      return WithReason(
          Invalid("tokens", absl::StrCat(spec.tokens.size(),
                                         " tokens leave no room in a context "
                                         "of ",
                                         context_length_)),
          "context_length_exceeded");
    }
    const uint64_t blocks = DivideUp(spec.tokens.size(), pool_->block_tokens());
    if (blocks > pool_->Stats().total) {
      return WithReason(
          Invalid("tokens", absl::StrCat(blocks,
                                         " KV blocks are needed, the "
                                         "worker has ",
                                         pool_->Stats().total)),
          "context_length_exceeded");
    }
    BATON_RETURN_IF_ERROR(ValidateSampling(spec.sampling, vocabulary_));
    BATON_RETURN_IF_ERROR(ValidateStop(spec.stop, vocabulary_));
    if (spec.stop.max_tokens &&
        spec.tokens.size() - spec.prompt_tokens >= *spec.stop.max_tokens) {
      return Invalid("max_tokens", "nothing is left to generate");
    }
    return absl::OkStatus();
  }

  absl::Status CheckRestored(const SequenceSpec& spec) const {
    if (spec.restored_tokens >= spec.tokens.size()) {
      return Invalid("restored_tokens", "at least one token must be computed");
    }
    if (spec.restored.size() !=
        DivideUp(spec.restored_tokens, pool_->block_tokens())) {
      return Invalid("restored", "does not cover restored_tokens");
    }
    for (const BlockRef& block : spec.restored) {
      if (!block) return Invalid("restored", "has an empty handle");
    }
    return absl::OkStatus();
  }

  void RunDeviceThread() {
    StepOutcome outcome = StepOutcome::kIdle;
    while (true) {
      Inbox inbox = AwaitInbox(outcome);
      for (auto& sequence : inbox.submitted) loop_.Add(std::move(sequence));
      for (SequenceId id : inbox.cancelled) loop_.Cancel(id);
      if (inbox.stopping) {
        loop_.CancelAll();
        Report();
        return;
      }
      outcome = loop_.Step();
      Report();
    }
  }

  // Waits while there is nothing to do. What it takes is counted as waiting
  // until Report.
  Inbox AwaitInbox(StepOutcome last) {
    MutexLock lock(&mutex_);
    bool checked = false;
    while (!stopping_ && submitted_.empty() && cancelled_.empty()) {
      if (last == StepOutcome::kMoved || checked) break;
      if (last == StepOutcome::kStalled) {
        checked = !changed_.WaitWithTimeout(&mutex_, kStallCheck);
      } else {
        changed_.Wait(&mutex_);
      }
    }
    load_.waiting += static_cast<uint32_t>(submitted_.size());
    Inbox inbox;
    inbox.stopping = stopping_;
    inbox.submitted = std::exchange(submitted_, {});
    inbox.cancelled = std::exchange(cancelled_, {});
    return inbox;
  }

  void Report() {
    const EngineLoad load = loop_.load();
    const std::vector<SequenceId> ended = loop_.TakeEnded();
    uint32_t submitted = 0;
    {
      MutexLock lock(&mutex_);
      load_ = load;
      submitted = static_cast<uint32_t>(submitted_.size());
      for (SequenceId id : ended) {
        live_.erase(id);
        cancelled_.erase(id);
      }
    }
    metrics_.SetLoad(load.running, load.waiting + submitted);
    metrics_.SetPool(pool_->Stats());
  }

  const Options options_;
  const uint32_t vocabulary_;
  const uint32_t context_length_;
  BlockPool* const pool_;
  const Clock* const clock_;
  EngineMetrics metrics_;
  DeviceLoop loop_;  // device thread only
  std::atomic<uint64_t> next_id_{1};

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<LiveSequence>> submitted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<SequenceId> cancelled_ ABSL_GUARDED_BY(mutex_);
  // Every id between Submit and its end.
  absl::flat_hash_set<SequenceId> live_ ABSL_GUARDED_BY(mutex_);
  // Of the loop, as of its last step.
  EngineLoad load_ ABSL_GUARDED_BY(mutex_);

  std::once_flag joined_;
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Engine> Engine::Create(const Options& options, Forward* forward,
                                       BlockPool* pool, const Clock* clock,
                                       telemetry::MetricsRegistry* metrics,
                                       Drafter* drafter) {
  return std::make_unique<DeviceThreadEngine>(options, forward, pool, clock,
                                              metrics, drafter);
}

}  // namespace baton::worker
