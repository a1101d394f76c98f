#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kvstore/index/object_index.h"
#include "kvstore/index/reaper.h"
#include "kvstore/store/memory_arena.h"
#include "services/base/crc32c.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/kvstore_fakes.h"
#include "tests/support/manual_clock.h"

namespace baton::kvstore {
namespace {

constexpr uint64_t kPage = 4096;
constexpr Epoch kEpoch(77);

using Code = absl::StatusCode;

class ObjectIndexTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectIndex> MakeIndex(ObjectIndex::Options options) {
    return std::make_unique<ObjectIndex>(options, &arena_, &clock_,
                                         metrics_.get());
  }

  static ObjectIndex::Options SmallOptions() {
    ObjectIndex::Options options;
    options.epoch = kEpoch;
    options.capacity_bytes = 4 * kPage;
    options.max_lease_ttl = absl::Seconds(10);
    return options;
  }

  LeaseId Lease(const std::string& handoff,
                absl::Duration ttl = absl::Seconds(10)) {
    return index_->Lookup(HandoffId(handoff), {}, ttl).value().lease;
  }

  std::vector<ObjectInfo> Find(const std::string& handoff,
                               std::vector<uint32_t> numbers) {
    std::vector<BlockKey> keys;
    for (uint32_t number : numbers) keys.push_back(TestKey(number));
    return index_->Lookup(HandoffId(handoff), keys, absl::Seconds(10))
        .value()
        .hits;
  }

  absl::StatusOr<ObjectInfo> Publish(LeaseId lease, uint32_t number,
                                     bool ephemeral = false,
                                     uint64_t bytes = kPage) {
    auto reserved =
        index_->Reserve(kEpoch, lease, TestKey(number), bytes, ephemeral);
    if (!reserved.ok()) return reserved.status();
    if (reserved->existing) return *reserved->existing;
    const std::vector<std::byte> payload = TestPayload(bytes, number);
    const uint32_t crc = Crc32c(payload);
    absl::Status written =
        index_->Write(kEpoch, reserved->write, 0, payload, crc);
    if (!written.ok()) return written;
    return index_->Commit(kEpoch, reserved->write, crc);
  }

  // Present for a new handoff, which holds nothing afterwards.
  bool IsPresent(uint32_t number) {
    auto found = index_->Lookup(HandoffId("probe"),
                                std::vector<BlockKey>{TestKey(number)},
                                absl::Seconds(10));
    EXPECT_TRUE(index_->Release(kEpoch, found->lease).ok());
    return !found->hits.empty();
  }

  std::string Metric(const std::string& series) {
    const std::string text = metrics_->Exposition();
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "absent";
    const size_t start = at + series.size() + 2;
    return text.substr(start, text.find('\n', start) - start);
  }

  ManualClock clock_;
  MemoryArena arena_{{16 * kPage, 4 * kPage}};
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("kvstore");
  std::unique_ptr<ObjectIndex> index_ = MakeIndex(SmallOptions());
};

TEST_F(ObjectIndexTest, FindsTheLongestRunOfLeadingKeys) {
  const LeaseId writer = Lease("w");
  for (uint32_t number : {1, 2, 4}) {
    ASSERT_TRUE(Publish(writer, number).ok());
  }
  EXPECT_EQ(Find("r", {1, 2, 3, 4}).size(), 2u);
  EXPECT_EQ(Find("r", {3, 1}).size(), 0u);
  const std::vector<ObjectInfo> hits = Find("r", {4});
  ASSERT_EQ(hits.size(), 1u);
  EXPECT_EQ(hits[0].crc32c, Crc32c(TestPayload(kPage, 4)));
  EXPECT_EQ(hits[0].payload_bytes, kPage);
}

TEST_F(ObjectIndexTest, AHandoffHasOneLeaseWhichLookupExtends) {
  const LeaseId first = Lease("h", absl::Seconds(4));
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(Lease("h", absl::Seconds(4)), first);
  clock_.Advance(absl::Seconds(3));
  index_->Reap();
  EXPECT_TRUE(index_->Renew(kEpoch, first, absl::Seconds(1)).ok());
  clock_.Advance(absl::Seconds(1));  // 7 s, which is the deadline
  EXPECT_EQ(index_->Renew(kEpoch, first, absl::Seconds(9)).code(),
            Code::kAborted);
  EXPECT_NE(Lease("h"), first);
}

TEST_F(ObjectIndexTest, RenewNeverShortensAndNeverExceedsTheBound) {
  const LeaseId lease = Lease("h", absl::Seconds(8));
  ASSERT_TRUE(index_->Renew(kEpoch, lease, absl::Seconds(1)).ok());
  clock_.Advance(absl::Seconds(7));
  ASSERT_TRUE(index_->Renew(kEpoch, lease, absl::Hours(1)).ok());
  clock_.Advance(absl::Milliseconds(9999));
  EXPECT_TRUE(index_->Renew(kEpoch, lease, absl::Nanoseconds(1)).ok());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(index_->Renew(kEpoch, lease, absl::Seconds(1)).code(),
            Code::kAborted);
}

TEST_F(ObjectIndexTest, HalfWrittenObjectsAreInvisible) {
  const LeaseId lease = Lease("h");
  auto reserved = index_->Reserve(kEpoch, lease, TestKey(1), kPage, false);
  ASSERT_TRUE(reserved.ok());
  const auto payload = TestPayload(kPage, 1);
  const auto half = std::span(payload).first(kPage / 2);
  ASSERT_TRUE(
      index_->Write(kEpoch, reserved->write, 0, half, Crc32c(half)).ok());
  EXPECT_TRUE(Find("h", {1}).empty());
  EXPECT_EQ(index_->GetStat().used_bytes, kPage);  // but takes room
  // A commit of a half is refused, and ends it.
  EXPECT_EQ(
      index_->Commit(kEpoch, reserved->write, Crc32c(half)).status().code(),
      Code::kDataLoss);
  EXPECT_EQ(index_->GetStat().used_bytes, 0u);
  EXPECT_EQ(index_->GetStat().pending_writes, 0u);
  EXPECT_EQ(arena_.live_bytes(), 0u);
}

TEST_F(ObjectIndexTest, RefusesChunksOutOfOrderOrBeyondTheEnd) {
  const LeaseId lease = Lease("h");
  const WriteId write =
      index_->Reserve(kEpoch, lease, TestKey(1), 100, false)->write;
  const auto payload = TestPayload(101, 1);
  const auto part = [&](size_t offset, size_t size) {
    const auto bytes = std::span(payload).subspan(offset, size);
    return index_->Write(kEpoch, write, offset, bytes, Crc32c(bytes)).code();
  };
  EXPECT_EQ(part(0, 101), Code::kInvalidArgument);
  EXPECT_EQ(part(1, 10), Code::kInvalidArgument);
  EXPECT_EQ(part(0, 0), Code::kInvalidArgument);
  EXPECT_EQ(part(0, 60), Code::kOk);
  EXPECT_EQ(part(0, 60), Code::kInvalidArgument);
  EXPECT_EQ(part(60, 41), Code::kInvalidArgument);
  EXPECT_EQ(part(60, 40), Code::kOk);
  EXPECT_TRUE(
      index_->Commit(kEpoch, write, Crc32c(std::span(payload).first(100)))
          .ok());
}

TEST_F(ObjectIndexTest, ADamagedChunkOrPayloadIsDropped) {
  const LeaseId lease = Lease("h");
  const auto payload = TestPayload(kPage, 1);
  WriteId write =
      index_->Reserve(kEpoch, lease, TestKey(1), kPage, false)->write;
  EXPECT_EQ(
      index_->Write(kEpoch, write, 0, payload, Crc32c(payload) ^ 1).code(),
      Code::kDataLoss);
  EXPECT_EQ(index_->Write(kEpoch, write, 0, payload, Crc32c(payload)).code(),
            Code::kAborted);
  write = index_->Reserve(kEpoch, lease, TestKey(1), kPage, false)->write;
  ASSERT_TRUE(index_->Write(kEpoch, write, 0, payload, Crc32c(payload)).ok());
  EXPECT_EQ(index_->Commit(kEpoch, write, Crc32c(payload) ^ 1).status().code(),
            Code::kDataLoss);
  EXPECT_FALSE(IsPresent(1));
  EXPECT_EQ(index_->GetStat().used_bytes, 0u);
  EXPECT_EQ(Metric("baton_kv_store_abandoned_writes_total"), "2");
}

TEST_F(ObjectIndexTest, EvictsTheLeastRecentlyUsedAndSkipsLeased) {
  const LeaseId a = Lease("a");
  for (uint32_t n : {1, 2, 3, 4}) ASSERT_TRUE(Publish(a, n).ok());
  // All is leased: refused, and nothing is lost.
  EXPECT_EQ(Publish(Lease("b"), 5).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(index_->GetStat().objects, 4u);
  ASSERT_EQ(Find("b", {1}).size(), 1u);
  ASSERT_TRUE(index_->Release(kEpoch, a).ok());
  // 1 is pinned by b. 4, the end of the chain, goes first.
  ASSERT_TRUE(Publish(Lease("b"), 5).ok());
  EXPECT_FALSE(IsPresent(4));
  EXPECT_TRUE(IsPresent(3));  // now the most recently used
  ASSERT_TRUE(Publish(Lease("b"), 6).ok());
  EXPECT_FALSE(IsPresent(2));
  EXPECT_TRUE(IsPresent(1));
  EXPECT_EQ(index_->GetStat().used_bytes, 4 * kPage);
  EXPECT_EQ(Metric("baton_kv_store_evictions_total{reason=\"capacity\"}"), "2");
  // 1, 5 and 6 are leased; room for 3's place only.
  EXPECT_EQ(Publish(Lease("b"), 7, false, 2 * kPage).status().code(),
            Code::kResourceExhausted);
  EXPECT_TRUE(IsPresent(3));  // not evicted for a reservation that fails
  EXPECT_EQ(Publish(Lease("b"), 8, false, 5 * kPage).status().code(),
            Code::kResourceExhausted);
}

TEST_F(ObjectIndexTest, EphemeralObjectsAreNotFoundAndGoWithTheirLastLease) {
  const LeaseId a = Lease("a");
  const auto info = Publish(a, 1, /*ephemeral=*/true);
  ASSERT_TRUE(info.ok());
  EXPECT_TRUE(Find("b", {1}).empty());
  const LeaseId b = Lease("b");
  ASSERT_TRUE(Publish(b, 1, true)->generation == info->generation);
  ASSERT_TRUE(index_->Release(kEpoch, a).ok());
  EXPECT_TRUE(index_->Open(kEpoch, b, info->key, info->generation).ok());
  clock_.Advance(absl::Seconds(10));
  index_->Reap();
  EXPECT_EQ(index_->GetStat().objects, 0u);
  EXPECT_EQ(arena_.live_bytes(), 0u);
  EXPECT_EQ(Metric("baton_kv_store_evictions_total{reason=\"ttl\"}"), "1");
}

TEST_F(ObjectIndexTest, PublishingItAsLastingKeepsAnEphemeralObject) {
  const LeaseId a = Lease("a");
  ASSERT_TRUE(Publish(a, 1, true).ok());
  ASSERT_TRUE(Publish(a, 1, false).ok());
  ASSERT_TRUE(index_->Release(kEpoch, a).ok());
  EXPECT_TRUE(IsPresent(1));
}

TEST_F(ObjectIndexTest, OpenNeedsALiveLeaseAndTheSameGeneration) {
  const LeaseId lease = Lease("h");
  const ObjectInfo info = Publish(lease, 1).value();
  const auto open = [&](Epoch epoch, LeaseId with, Generation generation) {
    return index_->Open(epoch, with, info.key, generation).status().code();
  };
  EXPECT_EQ(open(kEpoch, lease, info.generation), Code::kOk);
  EXPECT_EQ(open(kEpoch, lease, Generation(99)), Code::kNotFound);
  EXPECT_EQ(open(kEpoch, LeaseId(5), info.generation), Code::kAborted);
  EXPECT_EQ(open(Epoch(1), lease, info.generation), Code::kAborted);
  clock_.Advance(absl::Seconds(10));  // expired, though not reaped
  EXPECT_EQ(open(kEpoch, lease, info.generation), Code::kAborted);
}

TEST_F(ObjectIndexTest, AReplacedObjectHasANewGeneration) {
  const LeaseId lease = Lease("h");
  const ObjectInfo old = Publish(lease, 1).value();
  EXPECT_EQ(index_->Delete(kEpoch, old.key, Generation(99)).code(),
            Code::kNotFound);
  ASSERT_TRUE(index_->Delete(kEpoch, old.key, old.generation).ok());
  const ObjectInfo fresh = Publish(lease, 1).value();
  EXPECT_GT(fresh.generation, old.generation);
  // A late reader that found the old one damaged must not drop the new one.
  EXPECT_EQ(index_->Delete(kEpoch, old.key, old.generation).code(),
            Code::kNotFound);
  EXPECT_EQ(
      index_->Open(kEpoch, lease, old.key, old.generation).status().code(),
      Code::kNotFound);
  // Pinned anew: cannot be evicted, and is evictable after the release.
  for (uint32_t n : {2, 3, 4}) ASSERT_TRUE(Publish(lease, n).ok());
  EXPECT_FALSE(Publish(Lease("b"), 5).ok());
  ASSERT_TRUE(index_->Release(kEpoch, lease).ok());
  EXPECT_EQ(index_->GetStat().pinned_objects, 0u);
  EXPECT_EQ(index_->Flush(), 4u);
}

TEST_F(ObjectIndexTest, AReaderKeepsTheBytesOfAnEvictedObject) {
  const LeaseId lease = Lease("h");
  const ObjectInfo info = Publish(lease, 1).value();
  auto open = index_->Open(kEpoch, lease, info.key, info.generation);
  ASSERT_TRUE(open.ok());
  ASSERT_TRUE(index_->Release(kEpoch, lease).ok());
  const LeaseId other = Lease("o");
  for (uint32_t n : {2, 3, 4, 5}) ASSERT_TRUE(Publish(other, n).ok());
  EXPECT_FALSE(IsPresent(1));
  EXPECT_EQ(Crc32c(open->payload->bytes()), info.crc32c);
  EXPECT_EQ(arena_.live_bytes(), 5 * kPage);
  open = absl::CancelledError("");
  EXPECT_EQ(arena_.live_bytes(), 4 * kPage);
}

TEST_F(ObjectIndexTest, AWriterThatDiesIsReapedWithItsLease) {
  const LeaseId lease = Lease("h", absl::Seconds(3));
  const WriteId write =
      index_->Reserve(kEpoch, lease, TestKey(1), 2 * kPage, false)->write;
  clock_.Advance(absl::Seconds(3));
  // Quarantined: invisible, and its room is still taken.
  const auto payload = TestPayload(2 * kPage, 1);
  EXPECT_EQ(index_->Write(kEpoch, write, 0, payload, Crc32c(payload)).code(),
            Code::kAborted);
  EXPECT_EQ(index_->Commit(kEpoch, write, Crc32c(payload)).status().code(),
            Code::kAborted);
  EXPECT_EQ(index_->GetStat().used_bytes, 2 * kPage);
  index_->Reap();
  EXPECT_EQ(index_->GetStat().used_bytes, 0u);
  EXPECT_EQ(index_->GetStat().leases, 0u);
  EXPECT_EQ(arena_.live_bytes(), 0u);
  EXPECT_EQ(index_->Commit(kEpoch, write, Crc32c(payload)).status().code(),
            Code::kAborted);
}

TEST_F(ObjectIndexTest, OfTwoWritersTheFirstCommitWins) {
  const LeaseId a = Lease("a"), b = Lease("b");
  const auto payload = TestPayload(kPage, 1);
  const uint32_t crc = Crc32c(payload);
  std::vector<WriteId> writes;
  for (LeaseId lease : {a, b}) {
    writes.push_back(
        index_->Reserve(kEpoch, lease, TestKey(1), kPage, false)->write);
    ASSERT_TRUE(index_->Write(kEpoch, writes.back(), 0, payload, crc).ok());
  }
  const auto first = index_->Commit(kEpoch, writes[1], crc);
  const auto second = index_->Commit(kEpoch, writes[0], crc);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(index_->GetStat().used_bytes, kPage);
  // Both pin it.
  ASSERT_TRUE(index_->Release(kEpoch, b).ok());
  EXPECT_EQ(index_->GetStat().pinned_objects, 1u);
  ASSERT_TRUE(index_->Release(kEpoch, a).ok());
  EXPECT_EQ(index_->GetStat().pinned_objects, 0u);
}

TEST_F(ObjectIndexTest, EveryCallOfAnEarlierLifeIsAborted) {
  const LeaseId lease = Lease("h");
  const ObjectInfo info = Publish(lease, 1).value();
  const WriteId write =
      index_->Reserve(kEpoch, lease, TestKey(2), kPage, false)->write;
  ObjectIndex::Options options = SmallOptions();
  options.epoch = Epoch(78);
  index_ = MakeIndex(options);  // restarted
  EXPECT_EQ(
      index_->Reserve(kEpoch, lease, TestKey(1), 1, false).status().code(),
      Code::kAborted);
  EXPECT_EQ(index_->Write(kEpoch, write, 0, {}, 0).code(), Code::kAborted);
  EXPECT_EQ(index_->Commit(kEpoch, write, 0).status().code(), Code::kAborted);
  EXPECT_EQ(index_->Renew(kEpoch, lease, absl::Seconds(1)).code(),
            Code::kAborted);
  EXPECT_EQ(index_->Release(kEpoch, lease).code(), Code::kAborted);
  EXPECT_EQ(index_->Delete(kEpoch, info.key, info.generation).code(),
            Code::kAborted);
}

TEST_F(ObjectIndexTest, BadArgumentsAreRefused) {
  EXPECT_EQ(index_->Lookup(HandoffId(), {}, absl::Seconds(1)).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(
      index_->Lookup(HandoffId("h"), {}, absl::Seconds(-1)).status().code(),
      Code::kInvalidArgument);
  const LeaseId lease = Lease("h");
  EXPECT_EQ(index_->Renew(kEpoch, lease, -absl::InfiniteDuration()).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Publish(lease, 1, false, 0).status().code(),
            Code::kInvalidArgument);
  ASSERT_TRUE(Publish(lease, 1).ok());
  EXPECT_EQ(Publish(lease, 1, false, 8).status().code(),
            Code::kFailedPrecondition);
}

TEST_F(ObjectIndexTest, NumbersOfLeasesAndWritesAreBounded) {
  ObjectIndex::Options options = SmallOptions();
  options.max_leases = 2;
  options.max_pending_writes = 1;
  index_ = MakeIndex(options);
  const LeaseId a = Lease("a");
  Lease("b");
  EXPECT_EQ(
      index_->Lookup(HandoffId("c"), {}, absl::Seconds(1)).status().code(),
      Code::kResourceExhausted);
  EXPECT_EQ(Lease("a"), a);
  ASSERT_TRUE(index_->Reserve(kEpoch, a, TestKey(1), 1, false).ok());
  EXPECT_EQ(index_->Reserve(kEpoch, a, TestKey(2), 1, false).status().code(),
            Code::kResourceExhausted);
}

TEST_F(ObjectIndexTest, ADrainingStoreServesHeldLeasesOnly) {
  const LeaseId held = Lease("h");
  index_->StopAdmission();
  EXPECT_EQ(
      index_->Lookup(HandoffId("n"), {}, absl::Seconds(1)).status().code(),
      Code::kUnavailable);
  EXPECT_TRUE(Publish(held, 1).ok());
  EXPECT_EQ(Lease("h"), held);
}

TEST_F(ObjectIndexTest, FailedAllocationLeavesNothingBehind) {
  MemoryArena small({2 * kPage, 0});
  ObjectIndex index(SmallOptions(), &small, &clock_, metrics_.get());
  const LeaseId lease =
      index.Lookup(HandoffId("h"), {}, absl::Seconds(9))->lease;
  EXPECT_EQ(index.Reserve(kEpoch, lease, TestKey(1), 3 * kPage, false)
                .status()
                .code(),
            Code::kResourceExhausted);
  EXPECT_EQ(index.GetStat().used_bytes, 0u);
  EXPECT_EQ(index.GetStat().pending_writes, 0u);
  EXPECT_TRUE(index.Reserve(kEpoch, lease, TestKey(1), kPage, false).ok());
}

// Writers, readers, deleters and the reaper at once: no reader ever sees a
// wrong byte, and nothing is left.
TEST_F(ObjectIndexTest, ThreadsSeeWholeObjectsOnly) {
  std::atomic<int> wrong = 0, read = 0;
  {
    Reaper reaper(index_.get(), absl::Milliseconds(1));
    std::vector<std::jthread> threads;
    for (uint32_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (uint32_t i = 0; i < 300; ++i) {
          const uint32_t number = (t + i) % 6;
          const LeaseId lease = Lease(absl::StrCat(t, "-", i));
          const auto object = Publish(lease, number, i % 4 == 0);
          if (object.ok()) {
            const auto open =
                index_->Open(kEpoch, lease, object->key, object->generation);
            if (open.ok()) {
              ++read;
              const auto expected = TestPayload(kPage, number);
              const auto bytes = open->payload->bytes();
              wrong += !std::equal(bytes.begin(), bytes.end(), expected.begin(),
                                   expected.end());
            }
            if (i % 16 == 0) {
              // Another thread may have been faster.
              (void)index_->Delete(kEpoch, object->key, object->generation)
                  .ok();
            }
          }
          wrong += !index_->Release(kEpoch, lease).ok();
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(read, 300);
  index_->Flush();
  EXPECT_EQ(index_->GetStat().used_bytes, 0u);
  EXPECT_EQ(index_->GetStat().leases, 0u);
  EXPECT_EQ(arena_.live_bytes(), 0u);
}

// The reaper's own timer, with real time: no request drives it.
TEST_F(ObjectIndexTest, TheReaperRunsByItself) {
  const ObjectInfo info = Publish(Lease("h"), 1, true).value();
  clock_.Advance(absl::Seconds(10));
  const SystemClock wall;
  const absl::Duration limit = wall.Monotonic() + absl::Seconds(20);
  Reaper reaper(index_.get(), absl::Milliseconds(1));
  while (index_->GetStat().leases > 0 && wall.Monotonic() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(index_->GetStat().leases, 0u);
  EXPECT_EQ(index_->GetStat().objects, 0u) << info.key.Hex();
  reaper.Stop();
  reaper.Stop();
}

}  // namespace
}  // namespace baton::kvstore
