// What the handoff tests share: a pool, a fake store, and the threads between
// them.
#ifndef BATON_TESTS_UNIT_WORKER_HANDOFF_BENCH_H_
#define BATON_TESTS_UNIT_WORKER_HANDOFF_BENCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/base/clock.h"
#include "services/base/executor.h"
#include "services/base/mutex.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/fake_kvstore.h"
#include "worker/handoff/block_packing.h"
#include "worker/handoff/block_publisher.h"
#include "worker/handoff/handoff_importer.h"
#include "worker/handoff/handoff_manifest.h"
#include "worker/handoff/prefix_restorer.h"

namespace baton::worker {

inline constexpr uint32_t kBlockTokens = 4;

inline kvstore::KvLayout MakeLayout() {
  kvstore::KvLayout layout;
  layout.model_digest = kvstore::Sha256("model");
  layout.block_tokens = kBlockTokens;
  // 2 layers, 3 heads of 2 elements of 2 bytes: 12 strips of 4-byte rows.
  layout.groups = {{"attn", "full_suffix", "f16", 2, 3, 2, 12 * 4 * 4}};
  return layout;
}

inline std::vector<std::byte> Bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = std::byte(i * 31 + 7);
  return bytes;
}

class HandoffTest : public ::testing::Test {
 protected:
  explicit HandoffTest(kvstore::KvLayout layout = MakeLayout())
      : layout_(std::move(layout)) {
    BlockPool::Options options;
    options.block_bytes = layout_.TargetBytes();
    options.draft_bytes = layout_.DraftBytes();
    options.blocks = 8;
    options.block_tokens = kBlockTokens;
    pool_ = *BlockPool::Create(options);
    restorer_ = std::make_unique<PrefixRestorer>(
        pool_.get(), &store_, leases_.get(), &executor_, metrics_.get(),
        *DraftShape::Of(layout_));
    importer_ = *HandoffImporter::Create(pool_.get(), &store_, leases_.get(),
                                         &executor_, &layout_, metrics_.get());
  }
  ~HandoffTest() override { executor_.Stop(); }

  static std::vector<TokenId> Tokens(size_t count) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), 10);
    return tokens;
  }
  std::span<const std::byte> ContentOf(size_t block) {
    contents_.resize(std::max(contents_.size(), block + 1));
    if (contents_[block].empty()) {
      contents_[block] = Bytes(pool_->block_bytes());
      contents_[block][0] = std::byte(block);
    }
    return contents_[block];
  }
  std::vector<kvstore::BlockKey> Keys(std::span<const TokenId> tokens) const {
    return kvstore::BlockKeys(root_, tokens, kBlockTokens);
  }
  // Puts the full blocks of `tokens` into the store, under no lease.
  void Fill(std::span<const TokenId> tokens) {
    const auto lease = store_.Lookup(HandoffId("filler"), {}, {})->lease;
    size_t i = 0;
    for (const kvstore::BlockKey& key : Keys(tokens)) {
      ASSERT_TRUE(store_.Publish(lease, key, ContentOf(i++), false).ok());
    }
    ASSERT_TRUE(store_.Release(lease).ok());
  }
  void ExpectContents(const std::vector<BlockRef>& blocks) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(blocks[i].bytes(), ContentOf(i))) << i;
    }
  }
  std::shared_ptr<BlockPublisher> Publisher(size_t max_queued = 8) {
    BlockPublisher::Options options;
    options.handoff = HandoffId("publisher");
    options.max_queued = max_queued;
    options.shape = *BlockShape::Of(layout_.groups[0], kBlockTokens);
    options.drafts = *DraftShape::Of(layout_);
    return BlockPublisher::Create(options, &store_, leases_.get(), &executor_,
                                  metrics_.get(), nullptr, {});
  }
  std::vector<BlockRef> FilledBlocks(size_t count) {
    auto blocks = *pool_->TryAllocate(static_cast<uint32_t>(count));
    for (size_t i = 0; i < count; ++i) {
      std::ranges::copy(ContentOf(i), blocks[i].bytes().begin());
      if (layout_.DraftBytes() == 0 || i == unprimed_block) continue;
      const auto drafts = Bytes(layout_.DraftBytes());
      std::ranges::copy(drafts, blocks[i].draft_bytes().begin());
      blocks[i].draft_bytes()[0] = std::byte(i);
      blocks[i].MarkPrimed();
    }
    return blocks;
  }
  PublishedPrefix AwaitPublished(
      const std::shared_ptr<BlockPublisher>& publisher, uint32_t full_blocks,
      std::optional<BlockPublisher::Tail> tail) {
    Mutex mutex;
    CondVar done;
    std::optional<PublishedPrefix> result;
    publisher->Finish(full_blocks, std::move(tail),
                      [&](PublishedPrefix published) {
                        MutexLock lock(&mutex);
                        result.emplace(std::move(published));
                        done.SignalAll();
                      });
    MutexLock lock(&mutex);
    while (!result.has_value()) done.Wait(&mutex);
    return *std::move(result);
  }
  // Publishes all of `tokens` and makes the manifest, as a prefill worker does
  // whose first token is `first`.
  HandoffManifest Manifest(const std::vector<TokenId>& tokens, TokenId first) {
    const auto full = static_cast<uint32_t>(tokens.size() / kBlockTokens);
    const uint32_t rest = tokens.size() % kBlockTokens;
    std::vector<BlockRef> blocks = FilledBlocks(full + (rest > 0));
    const auto keys = Keys(tokens);
    auto publisher = Publisher();
    for (uint32_t i = 0; i < full; ++i) publisher->Add(i, keys[i], blocks[i]);
    std::optional<BlockPublisher::Tail> tail;
    if (rest > 0) {
      tail = {kvstore::NextKey(full == 0 ? root_ : keys[full - 1],
                               std::span(tokens).last(rest)),
              blocks[full], rest};
    }
    PublishedPrefix published =
        AwaitPublished(publisher, full, std::move(tail));
    HandoffManifest manifest;
    manifest.layout = layout_;
    manifest.lease = published.lease->lease();
    published.lease->HandOver();
    manifest.blocks = std::move(published.blocks);
    manifest.position = {static_cast<uint32_t>(tokens.size()) + 1,
                         static_cast<uint32_t>(tokens.size()), first,
                         static_cast<uint32_t>(tokens.size()),
                         tokens.size() + 1};
    return manifest;
  }
  bool NoLeases() {
    // Releases are on their way through the executor.
    for (int i = 0; i < 5000 && store_.leases() + leases_->held() > 0; ++i) {
      Mutex mutex;
      CondVar never;
      MutexLock lock(&mutex);
      never.WaitWithTimeout(&mutex, absl::Milliseconds(1));
    }
    return store_.leases() + leases_->held() == 0;
  }
  double Count(const std::string& series) {
    const std::string text = registry_->Exposition();
    const size_t at = text.find("\n" + series + " ");
    return at == std::string::npos
               ? -1
               : std::stod(text.substr(at + series.size() + 2));
  }

  // Of those that FilledBlocks makes: it has no draft rows.
  size_t unprimed_block = SIZE_MAX;

  const kvstore::KvLayout layout_;
  const kvstore::BlockKey root_ = kvstore::RootKey(layout_.Fingerprint(), "");
  std::unique_ptr<telemetry::PrometheusMetrics> registry_ =
      telemetry::PrometheusMetrics::Create("worker");
  std::unique_ptr<HandoffMetrics> metrics_ =
      std::make_unique<HandoffMetrics>(registry_.get(), "m");
  kvstore::FakeKvStore store_;
  std::vector<std::vector<std::byte>> contents_;
  std::unique_ptr<BlockPool> pool_;
  ThreadPoolExecutor executor_{ThreadPoolExecutor::Options{3}};
  std::unique_ptr<LeaseBook> leases_ = std::make_unique<LeaseBook>(
      LeaseBook::Options{absl::Seconds(3)}, &store_, &executor_);
  std::unique_ptr<PrefixRestorer> restorer_;
  std::unique_ptr<HandoffImporter> importer_;
};

}  // namespace baton::worker

#endif  // BATON_TESTS_UNIT_WORKER_HANDOFF_BENCH_H_
