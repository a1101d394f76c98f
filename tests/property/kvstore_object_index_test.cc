// ObjectIndex against a naive model: the same seeded operations on both, equal
// results and equal totals after each. BATON_SEED picks another seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kvstore/index/object_index.h"
#include "kvstore/store/memory_arena.h"
#include "services/base/crc32c.h"
#include "services/telemetry/prometheus_metrics.h"
#include "tests/support/kvstore_fakes.h"
#include "tests/support/manual_clock.h"

namespace baton::kvstore {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kCapacityPages = 10;
constexpr Epoch kEpoch(5);
constexpr int kKeys = 12;
constexpr int kHandoffs = 4;

using Code = absl::StatusCode;

// Everything in plain containers, searched from end to end. The sizes are in
// pages; an object of key k always has 1 + k % 3 of them.
struct Model {
  struct Object {
    int key;
    uint64_t generation;
    bool ephemeral;
    std::set<uint64_t> holders;  // lease serials
  };
  struct Write {
    uint64_t serial;
    uint64_t lease;
    int key;
    bool ephemeral;
    bool written = false;
  };
  struct Lease {
    uint64_t serial;
    int handoff;
    absl::Duration deadline;
    std::vector<int> pinned;  // keys, in order of pinning
  };

  std::vector<Object> objects;
  std::vector<int> unpinned;  // keys, least recently used first
  std::vector<Write> writes;
  std::vector<Lease> leases;
  uint64_t serials = 0;
  uint64_t generations = 0;
  absl::Duration now;

  static uint64_t Pages(int key) { return 1 + key % 3; }

  uint64_t Used() const {
    uint64_t pages = 0;
    for (const Object& object : objects) pages += Pages(object.key);
    for (const Write& write : writes) pages += Pages(write.key);
    return pages;
  }
  Object* FindObject(int key) {
    for (Object& object : objects) {
      if (object.key == key) return &object;
    }
    return nullptr;
  }
  Lease* FindLive(uint64_t serial) {
    for (Lease& lease : leases) {
      if (lease.serial == serial && now < lease.deadline) return &lease;
    }
    return nullptr;
  }
  void Drop(int key) {
    std::erase_if(objects, [&](const Object& o) { return o.key == key; });
    std::erase(unpinned, key);
    // A deleted object leaves the order in which a lease pinned the others.
    for (Lease& lease : leases) std::erase(lease.pinned, key);
  }
  void Pin(Lease* lease, Object* object) {
    std::erase(unpinned, object->key);
    if (object->holders.insert(lease->serial).second) {
      lease->pinned.push_back(object->key);
    }
  }
  void End(uint64_t serial) {
    auto it = std::find_if(leases.begin(), leases.end(),
                           [&](const Lease& l) { return l.serial == serial; });
    if (it == leases.end()) return;
    const Lease ended = *it;
    leases.erase(it);
    std::erase_if(writes, [&](const Write& w) { return w.lease == serial; });
    for (auto key = ended.pinned.rbegin(); key != ended.pinned.rend(); ++key) {
      Object* const object = FindObject(*key);
      object->holders.erase(serial);
      if (!object->holders.empty()) continue;
      unpinned.push_back(*key);
      if (object->ephemeral) Drop(*key);
    }
  }
  Lease* Grant(int handoff, absl::Duration ttl) {
    for (Lease& lease : leases) {
      if (lease.handoff != handoff) continue;
      if (now < lease.deadline) {
        lease.deadline = std::max(lease.deadline, now + ttl);
        return &lease;
      }
      End(lease.serial);
      break;
    }
    leases.push_back({++serials, handoff, now + ttl, {}});
    return &leases.back();
  }
  void Reap() {
    std::vector<Lease> expired;
    for (const Lease& lease : leases) {
      if (now >= lease.deadline) expired.push_back(lease);
    }
    std::stable_sort(
        expired.begin(), expired.end(),
        [](const Lease& a, const Lease& b) { return a.deadline < b.deadline; });
    for (const Lease& lease : expired) End(lease.serial);
  }
  bool MakeRoom(uint64_t pages) {
    uint64_t free = kCapacityPages - Used();
    for (int key : unpinned) free += Pages(key);
    if (free < pages) return false;
    while (kCapacityPages - Used() < pages) Drop(unpinned.front());
    return true;
  }
};

class Comparison {
 public:
  explicit Comparison(uint64_t seed) : random_(seed) {
    model_.now = clock_.Monotonic();
  }

  void Step() {
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
        return Lookup();
      case 3:
      case 4:
      case 5:
        return Reserve();
      case 6:
      case 7:
      case 8:
      case 9:
        return Write();
      case 10:
        return Commit();
      case 11:
        return Renew();
      case 12:
        return Release();
      case 13:
        return Delete();
      case 14:
        clock_.Advance(absl::Milliseconds(random_() % 1500));
        model_.now = clock_.Monotonic();
        return;
      default:
        if (random_() % 20 == 0) {
          uint64_t dropped = model_.unpinned.size();
          while (!model_.unpinned.empty()) {
            model_.Drop(model_.unpinned.front());
          }
          EXPECT_EQ(index_.Flush(), dropped);
          return;
        }
        index_.Reap();
        model_.Reap();
    }
  }

  void CheckTotals() {
    const ObjectIndex::Stat stat = index_.GetStat();
    EXPECT_EQ(stat.used_bytes, model_.Used() * kPage);
    EXPECT_LE(stat.used_bytes, kCapacityPages * kPage);
    EXPECT_EQ(stat.objects, model_.objects.size());
    EXPECT_EQ(stat.pinned_objects,
              model_.objects.size() - model_.unpinned.size());
    EXPECT_EQ(stat.leases, model_.leases.size());
    EXPECT_EQ(stat.pending_writes, model_.writes.size());
    EXPECT_EQ(arena_.live_bytes(), stat.used_bytes);  // no reader is open
  }

  // Everything ends, and everything comes back.
  void CheckNothingLeaks() {
    clock_.Advance(absl::Hours(1));
    model_.now = clock_.Monotonic();
    index_.Reap();
    model_.Reap();
    CheckTotals();
    EXPECT_EQ(index_.GetStat().pinned_objects, 0u);
    index_.Flush();
    EXPECT_EQ(index_.GetStat().used_bytes, 0u);
    EXPECT_EQ(arena_.live_bytes(), 0u);
  }

  int commits() const { return commits_; }

 private:
  int RandomKey() { return static_cast<int>(random_() % kKeys); }
  // Also leases that have ended, and ones that never were.
  uint64_t RandomLease() {
    if (!model_.leases.empty() && random_() % 8 != 0) {
      return model_.leases[random_() % model_.leases.size()].serial;
    }
    return 1 + random_() % (model_.serials + 1);
  }
  LeaseId IdOf(uint64_t serial) {
    auto it = lease_ids_.find(serial);
    return it == lease_ids_.end() ? LeaseId(1) : it->second;
  }

  void Lookup() {
    const int handoff = static_cast<int>(random_() % kHandoffs);
    const auto ttl = absl::Milliseconds(1 + random_() % 4000);
    std::vector<int> numbers(random_() % 5);
    std::vector<BlockKey> keys;
    for (int& number : numbers) {
      number = RandomKey();
      keys.push_back(TestKey(number));
    }
    const auto grant =
        index_.Lookup(HandoffId(std::to_string(handoff)), keys, ttl);
    ASSERT_TRUE(grant.ok()) << grant.status();
    Model::Lease* const lease = model_.Grant(handoff, ttl);
    lease_ids_.try_emplace(lease->serial, grant->lease);
    EXPECT_EQ(lease_ids_[lease->serial], grant->lease);
    std::vector<uint64_t> generations;
    for (int number : numbers) {
      Model::Object* const object = model_.FindObject(number);
      if (object == nullptr || object->ephemeral) break;
      model_.Pin(lease, object);
      generations.push_back(object->generation);
    }
    ASSERT_EQ(grant->hits.size(), generations.size());
    for (size_t i = 0; i < generations.size(); ++i) {
      EXPECT_EQ(grant->hits[i].generation.value(), generations[i]);
      CheckBytes(grant->lease, grant->hits[i], numbers[i]);
    }
  }

  void CheckBytes(LeaseId lease, const ObjectInfo& info, int number) {
    const auto open = index_.Open(kEpoch, lease, info.key, info.generation);
    ASSERT_TRUE(open.ok()) << open.status();
    const auto expected = TestPayload(Model::Pages(number) * kPage, number);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           open->payload->bytes().begin(),
                           open->payload->bytes().end()));
  }

  void Reserve() {
    const int key = RandomKey();
    const uint64_t serial = RandomLease();
    const bool ephemeral = random_() % 3 == 0;
    const uint64_t pages = Model::Pages(key);
    const auto reserved = index_.Reserve(kEpoch, IdOf(serial), TestKey(key),
                                         pages * kPage, ephemeral);
    Model::Lease* const lease = model_.FindLive(serial);
    if (lease == nullptr) {
      EXPECT_EQ(reserved.status().code(), Code::kAborted);
      return;
    }
    if (Model::Object* const object = model_.FindObject(key)) {
      ASSERT_TRUE(reserved.ok() && reserved->existing.has_value());
      EXPECT_EQ(reserved->existing->generation.value(), object->generation);
      object->ephemeral = object->ephemeral && ephemeral;
      model_.Pin(lease, object);
      return;
    }
    if (!model_.MakeRoom(pages)) {
      EXPECT_EQ(reserved.status().code(), Code::kResourceExhausted);
      return;
    }
    ASSERT_TRUE(reserved.ok()) << reserved.status();
    ASSERT_FALSE(reserved->existing.has_value());
    model_.writes.push_back({++writes_, serial, key, ephemeral});
    write_ids_[writes_] = reserved->write;
    write_keys_[writes_] = key;
  }

  // Any write that ever was.
  std::optional<uint64_t> RandomWrite() {
    if (writes_ == 0) return std::nullopt;
    if (!model_.writes.empty() && random_() % 8 != 0) {
      return model_.writes[random_() % model_.writes.size()].serial;
    }
    return 1 + random_() % writes_;
  }
  Model::Write* FindWrite(uint64_t serial) {
    for (Model::Write& write : model_.writes) {
      if (write.serial == serial && model_.FindLive(write.lease) != nullptr) {
        return &write;
      }
    }
    return nullptr;
  }

  // The whole payload in one chunk; then mostly a commit.
  void Write() {
    const auto serial = RandomWrite();
    if (!serial) return;
    const int key = write_keys_[*serial];
    const auto payload = TestPayload(Model::Pages(key) * kPage, key);
    const bool damage = random_() % 16 == 0;
    const Code code = index_
                          .Write(kEpoch, write_ids_[*serial], 0, payload,
                                 Crc32c(payload) + damage)
                          .code();
    Model::Write* const write = FindWrite(*serial);
    if (write == nullptr) {
      EXPECT_EQ(code, Code::kAborted);
    } else if (damage) {
      EXPECT_EQ(code, Code::kDataLoss);
      std::erase_if(model_.writes,
                    [&](const auto& w) { return w.serial == *serial; });
    } else if (write->written) {
      EXPECT_EQ(code, Code::kInvalidArgument);
    } else {
      EXPECT_EQ(code, Code::kOk);
      write->written = true;
      if (random_() % 2 == 0) CommitOne(*serial);
    }
  }

  void Commit() {
    const auto serial = RandomWrite();
    if (serial) CommitOne(*serial);
  }

  void CommitOne(uint64_t serial) {
    const int key = write_keys_[serial];
    const uint32_t crc = Crc32c(TestPayload(Model::Pages(key) * kPage, key));
    const auto info = index_.Commit(kEpoch, write_ids_[serial], crc);
    Model::Write* const found = FindWrite(serial);
    if (found == nullptr) {
      EXPECT_EQ(info.status().code(), Code::kAborted);
      return;
    }
    const Model::Write write = *found;
    std::erase_if(model_.writes,
                  [&](const auto& w) { return w.serial == serial; });
    if (!write.written) {
      EXPECT_EQ(info.status().code(), Code::kDataLoss);
      return;
    }
    ASSERT_TRUE(info.ok()) << info.status();
    Model::Object* object = model_.FindObject(key);
    if (object == nullptr) {
      model_.objects.push_back(
          {key, ++model_.generations, write.ephemeral, {}});
      object = &model_.objects.back();
      ++commits_;
    }
    object->ephemeral = object->ephemeral && write.ephemeral;
    model_.Pin(model_.FindLive(write.lease), object);
    EXPECT_EQ(info->generation.value(), object->generation);
  }

  void Renew() {
    const uint64_t serial = RandomLease();
    const auto ttl = absl::Milliseconds(1 + random_() % 4000);
    const Code code = index_.Renew(kEpoch, IdOf(serial), ttl).code();
    Model::Lease* const lease = model_.FindLive(serial);
    EXPECT_EQ(code, lease == nullptr ? Code::kAborted : Code::kOk);
    if (lease != nullptr) {
      lease->deadline = std::max(lease->deadline, model_.now + ttl);
    }
  }

  void Release() {
    const uint64_t serial = RandomLease();
    EXPECT_TRUE(index_.Release(kEpoch, IdOf(serial)).ok());
    model_.End(serial);
  }

  void Delete() {
    const int key = RandomKey();
    Model::Object* const object = model_.FindObject(key);
    uint64_t generation = object == nullptr ? 1 : object->generation;
    const bool wrong = random_() % 2 == 0;
    if (wrong) generation += 1000000;
    const Code code =
        index_.Delete(kEpoch, TestKey(key), Generation(generation)).code();
    if (object == nullptr || wrong) {
      EXPECT_EQ(code, Code::kNotFound);
      return;
    }
    EXPECT_EQ(code, Code::kOk);
    model_.Drop(key);
  }

  static ObjectIndex::Options IndexOptions() {
    ObjectIndex::Options options;
    options.epoch = kEpoch;
    options.capacity_bytes = kCapacityPages * kPage;
    return options;
  }

  std::mt19937_64 random_;
  ManualClock clock_;
  MemoryArena arena_{{kCapacityPages * kPage, 3 * kPage}};
  std::unique_ptr<telemetry::PrometheusMetrics> metrics_ =
      telemetry::PrometheusMetrics::Create("kvstore");
  ObjectIndex index_{IndexOptions(), &arena_, &clock_, metrics_.get()};
  Model model_;
  std::map<uint64_t, LeaseId> lease_ids_;
  std::map<uint64_t, WriteId> write_ids_;
  std::map<uint64_t, int> write_keys_;
  uint64_t writes_ = 0;
  int commits_ = 0;
};

TEST(ObjectIndexPropertyTest, AgreesWithANaiveModel) {
  const char* const chosen = std::getenv("BATON_SEED");
  const uint64_t first = chosen == nullptr ? 1 : std::strtoull(chosen, 0, 10);
  const uint64_t last = chosen == nullptr ? 40 : first;
  int commits = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Comparison comparison(seed);
    for (int step = 0; step < 3000; ++step) {
      comparison.Step();
      comparison.CheckTotals();
      ASSERT_FALSE(testing::Test::HasFailure())
          << "BATON_SEED=" << seed << ", step " << step;
    }
    comparison.CheckNothingLeaks();
    commits += comparison.commits();
  }
  EXPECT_GT(commits, 100 * static_cast<int>(last - first + 1));
}

}  // namespace
}  // namespace baton::kvstore
