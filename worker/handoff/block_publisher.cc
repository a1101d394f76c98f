#include "worker/handoff/block_publisher.h"

#include <utility>

#include "absl/status/status.h"
#include "services/base/status_macros.h"

namespace baton::worker {

std::shared_ptr<BlockPublisher> BlockPublisher::Create(
    const Options& options, kvstore::KvStoreClient* store, LeaseBook* leases,
    Executor* executor, const HandoffMetrics* metrics,
    std::unique_ptr<HeldLease> lease,
    std::vector<kvstore::ObjectInfo> present) {
  std::shared_ptr<BlockPublisher> publisher(
      new BlockPublisher(options, store, leases, executor, metrics));
  publisher->lease_ = std::move(lease);
  MutexLock lock(&publisher->mutex_);
  for (uint32_t i = 0; i < present.size(); ++i) {
    publisher->blocks_[i] = present[i];
  }
  return publisher;
}

BlockPublisher::BlockPublisher(const Options& options,
                               kvstore::KvStoreClient* store, LeaseBook* leases,
                               Executor* executor,
                               const HandoffMetrics* metrics)
    : options_(options),
      store_(store),
      leases_(leases),
      executor_(executor),
      metrics_(metrics) {}

void BlockPublisher::Add(uint32_t index, const kvstore::BlockKey& key,
                         const BlockRef& block) {
  std::deque<Queued> dropped;  // freed outside the lock
  {
    MutexLock lock(&mutex_);
    if (stopped_ || finishing_) return;
    const bool target = !blocks_.contains(index);
    const bool draft =
        !options_.drafts.empty() && block.primed() && !drafts_.contains(index);
    if (!target && !draft) return;
    if (queue_.size() < options_.max_queued) {
      if (target) blocks_[index] = std::nullopt;
      if (draft) drafts_[index] = std::nullopt;
      queue_.push_back({index, key, block, target, draft});
      ScheduleLocked();
      return;
    }
    stopped_ = true;
    dropped.swap(queue_);
  }
  metrics_->PublishFailure("queue_full")->Increment();
}

void BlockPublisher::Finish(uint32_t full_blocks, std::optional<Tail> tail,
                            std::function<void(PublishedPrefix)> done) {
  bool refused;
  {
    MutexLock lock(&mutex_);
    finishing_ = true;
    full_blocks_ = full_blocks;
    tail_ = std::move(tail);
    done_ = std::move(done);
    ScheduleLocked();
    refused = !draining_;
  }
  if (refused) Conclude();
}

void BlockPublisher::Stop() {
  std::deque<Queued> dropped;
  MutexLock lock(&mutex_);
  stopped_ = true;
  dropped.swap(queue_);
}

void BlockPublisher::ScheduleLocked() {
  if (draining_) return;
  draining_ = executor_->Post([self = shared_from_this()] { self->Drain(); });
  if (!draining_) stopped_ = true;
}

void BlockPublisher::Drain() {
  while (std::optional<Queued> next = TakeNext()) {
    const absl::Status status = PublishBlock(*next);
    if (!status.ok()) Fail(status);
  }
  bool finishing;
  {
    MutexLock lock(&mutex_);
    // Add may have queued a block since TakeNext; its drain is this one's
    // successor.
    draining_ = false;
    if (!queue_.empty()) {
      ScheduleLocked();
      if (draining_) return;
    }
    finishing = finishing_;
    draining_ = finishing;
  }
  if (!finishing) return;
  PublishTail();
  Conclude();
}

std::optional<BlockPublisher::Queued> BlockPublisher::TakeNext() {
  MutexLock lock(&mutex_);
  if (stopped_ || queue_.empty()) return std::nullopt;
  Queued next = std::move(queue_.front());
  queue_.pop_front();
  return next;
}

absl::Status BlockPublisher::EnsureLease() {
  if (lease_ != nullptr) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(kvstore::LookupResult result,
                         store_->Lookup(options_.handoff, {}, leases_->ttl()));
  lease_ = leases_->Hold(result.lease);
  return absl::OkStatus();
}

absl::Status BlockPublisher::PublishBlock(const Queued& queued) {
  BATON_RETURN_IF_ERROR(EnsureLease());
  if (lease_->lost()) return absl::AbortedError("lease lost");
  if (queued.target) {
    BATON_ASSIGN_OR_RETURN(
        kvstore::ObjectInfo object,
        store_->Publish(lease_->lease(), queued.key, queued.block.bytes(),
                        /*ephemeral=*/false));
    MutexLock lock(&mutex_);
    blocks_[queued.index] = object;
  }
  if (queued.draft) {
    const auto object = PublishDraft(queued.key, queued.block.draft_bytes(),
                                     /*ephemeral=*/false);
    MutexLock lock(&mutex_);
    drafts_[queued.index] = object;
  }
  return absl::OkStatus();
}

std::optional<kvstore::ObjectInfo> BlockPublisher::PublishDraft(
    const kvstore::BlockKey& key, std::span<const std::byte> payload,
    bool ephemeral) {
  auto object = store_->Publish(
      lease_->lease(), kvstore::DraftKey(options_.drafts.fingerprint, key),
      payload, ephemeral);
  if (object.ok()) return *object;
  metrics_->PublishFailure(CauseOf(object.status()))->Increment();
  return std::nullopt;
}

bool BlockPublisher::CompleteLocked() const {
  for (uint32_t i = 0; i < full_blocks_; ++i) {
    auto it = blocks_.find(i);
    if (it == blocks_.end() || !it->second.has_value()) return false;
  }
  return true;
}

void BlockPublisher::PublishTail() {
  std::optional<Tail> tail;
  {
    MutexLock lock(&mutex_);
    if (stopped_ || !CompleteLocked()) return;
    tail = tail_;
  }
  if (!tail.has_value()) return;
  const auto publish = [&]() -> absl::Status {
    BATON_RETURN_IF_ERROR(EnsureLease());
    BATON_ASSIGN_OR_RETURN(
        std::vector<std::byte> payload,
        PackRows(options_.shape, tail->block.bytes(), tail->tokens));
    BATON_ASSIGN_OR_RETURN(kvstore::ObjectInfo object,
                           store_->Publish(lease_->lease(), tail->key, payload,
                                           /*ephemeral=*/true));
    HandoffBlock published = {object, tail->tokens, std::nullopt};
    if (!options_.drafts.empty() && tail->block.primed()) {
      BATON_ASSIGN_OR_RETURN(
          payload,
          PackDraft(options_.drafts, tail->block.draft_bytes(), tail->tokens));
      published.draft = PublishDraft(tail->key, payload, /*ephemeral=*/true);
    }
    MutexLock lock(&mutex_);
    tail_object_ = published;
    return absl::OkStatus();
  };
  if (absl::Status status = publish(); !status.ok()) Fail(status);
}

void BlockPublisher::Fail(const absl::Status& status) {
  std::deque<Queued> dropped;
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    stopped_ = true;
    dropped.swap(queue_);
  }
  metrics_->PublishFailure(CauseOf(status))->Increment();
}

void BlockPublisher::Conclude() {
  PublishedPrefix prefix;
  std::function<void(PublishedPrefix)> done;
  std::optional<Tail> tail;
  {
    MutexLock lock(&mutex_);
    for (uint32_t i = 0; i < full_blocks_; ++i) {
      auto it = blocks_.find(i);
      if (it == blocks_.end() || !it->second.has_value()) break;
      HandoffBlock block = {*it->second, options_.shape.block_tokens,
                            std::nullopt};
      if (auto draft = drafts_.find(i); draft != drafts_.end()) {
        block.draft = draft->second;
      }
      prefix.blocks.push_back(block);
    }
    if (tail_object_.has_value()) {
      prefix.blocks.push_back(*tail_object_);
    }
    stopped_ = true;
    tail.swap(tail_);
    done = std::move(done_);
  }
  prefix.lease = std::move(lease_);
  // Whoever is told may want the room at once.
  tail.reset();
  done(std::move(prefix));
}

}  // namespace baton::worker
