#include <gtest/gtest.h>

#include "gateway/routing/router.h"
#include "tests/support/cluster_builder.h"

namespace baton::gateway {
namespace {

using testing_support::MakeCluster;
using testing_support::MakeWorker;

struct Change {
  const char* id;
  std::function<void(WorkerSnapshot*)> apply;
};

struct Case {
  const char* name;
  std::vector<std::pair<const char*, WorkerRole>> workers;
  std::vector<Change> changes;
  RouteFacts facts;
  RouteExclusions exclusions;
  uint32_t threshold;
  // "" = none; decode "" = no route.
  const char* prefill;
  const char* decode;
};

constexpr WorkerRole P = WorkerRole::kPrefill;
constexpr WorkerRole D = WorkerRole::kDecode;
constexpr WorkerRole A = WorkerRole::kAny;

RouteFacts Prompt(uint32_t tokens) { return {tokens, true, std::nullopt}; }

void NotReady(WorkerSnapshot* worker) { worker->ready = false; }

std::vector<Case> Cases() {
  const SequenceIdentity pinned{"model", "layout", "numerics"};
  return {
      {"PairsPrefillAndDecode",
       {{"p", P}, {"d", D}},
       {},
       Prompt(9),
       {},
       1,
       "p",
       "d"},
      {"DecodeAloneWithoutPrefill", {{"d", D}}, {}, Prompt(9), {}, 1, "", "d"},
      {"DecodeAloneBelowThreshold",
       {{"p", P}, {"d", D}},
       {},
       Prompt(9),
       {},
       10,
       "",
       "d"},
      {"NoRouteWithoutDecode", {{"p", P}}, {}, Prompt(9), {}, 1, "", ""},
      {"SkipsUnreadyDecode",
       {{"d1", D}, {"d2", D}},
       {{"d1", NotReady}},
       Prompt(9),
       {},
       1,
       "",
       "d2"},
      {"SkipsUnreadyPrefill",
       {{"p", P}, {"d", D}},
       {{"p", NotReady}},
       Prompt(9),
       {},
       1,
       "",
       "d"},
      {"TiesGoToTheLowestId",
       {{"d2", D}, {"d1", D}},
       {},
       Prompt(9),
       {},
       1,
       "",
       "d1"},
      {"LeastLoadWins",
       {{"d1", D}, {"d2", D}},
       {{"d1", [](WorkerSnapshot* w) { w->running = 3; }}},
       Prompt(9),
       {},
       1,
       "",
       "d2"},
      {"OwnInflightCountsBeforeTheNextReport",
       {{"d1", D}, {"d2", D}},
       {{"d1", [](WorkerSnapshot* w) { w->inflight = 1; }}},
       Prompt(9),
       {},
       1,
       "",
       "d2"},
      {"FullerKvPoolLoses",
       {{"d1", D}, {"d2", D}},
       {{"d1",
         [](WorkerSnapshot* w) {
           w->kv_blocks_total = 10;
           w->kv_blocks_used = 9;
         }}},
       Prompt(9),
       {},
       1,
       "",
       "d2"},
      {"MoreSlotsWin",
       {{"d1", D}, {"d2", D}},
       {{"d1", [](WorkerSnapshot* w) { w->running = 2; }},
        {"d2",
         [](WorkerSnapshot* w) {
           w->running = 3;
           w->max_sequences = 64;
         }}},
       Prompt(9),
       {},
       1,
       "",
       "d2"},
      {"NeverPairsDifferentLayouts",
       {{"p", P}, {"d", D}},
       {{"p", [](WorkerSnapshot* w) { w->layout_fingerprint = "other"; }}},
       Prompt(9),
       {},
       1,
       "",
       "d"},
      {"NeverPairsDifferentNumerics",
       {{"p", P}, {"d", D}},
       {{"p", [](WorkerSnapshot* w) { w->numerics_id = "other"; }}},
       Prompt(9),
       {},
       1,
       "",
       "d"},
      {"ExcludedDecode",
       {{"d1", D}, {"d2", D}},
       {},
       Prompt(9),
       {{}, {WorkerId("d1")}},
       1,
       "",
       "d2"},
      {"ExcludedPrefill",
       {{"p1", P}, {"p2", P}, {"d", D}},
       {},
       Prompt(9),
       {{WorkerId("p1")}, {}},
       1,
       "p2",
       "d"},
      {"ResumeNeedsEqualNumerics",
       {{"d1", D}, {"d2", D}},
       {{"d1", [](WorkerSnapshot* w) { w->numerics_id = "other"; }}},
       {9, false, pinned},
       {},
       1,
       "",
       "d2"},
      {"ResumeNeedsEqualLayout",
       {{"d1", D}},
       {{"d1", [](WorkerSnapshot* w) { w->layout_fingerprint = "other"; }}},
       {9, false, pinned},
       {},
       1,
       "",
       ""},
      {"ResumeNeverPrefillsRemotely",
       {{"p", P}, {"d", D}},
       {},
       {9, false, pinned},
       {},
       1,
       "",
       "d"},
      {"AnyServesAlone", {{"a", A}}, {}, Prompt(9), {}, 1, "", "a"},
      {"AnyPrefillsForDecode",
       {{"a", A}, {"d", D}},
       {{"a", [](WorkerSnapshot* w) { w->running = 1; }}},
       Prompt(9),
       {},
       1,
       "a",
       "d"},
      {"TwoAnyDoNotPair",
       {{"a1", A}, {"a2", A}},
       {},
       Prompt(9),
       {},
       1,
       "",
       "a1"},
  };
}

class RouterTable : public ::testing::TestWithParam<Case> {};

TEST_P(RouterTable, Picks) {
  const Case& c = GetParam();
  std::vector<WorkerSnapshot> workers;
  for (const auto& [id, role] : c.workers) {
    workers.push_back(MakeWorker(id, role));
    for (const Change& change : c.changes) {
      if (workers.back().id == WorkerId(change.id)) {
        change.apply(&workers.back());
      }
    }
  }
  const Router router({c.threshold});
  const auto route = router.Pick(MakeCluster(workers), c.facts, c.exclusions);
  ASSERT_EQ(route.has_value(), c.decode[0] != '\0');
  if (!route.has_value()) return;
  EXPECT_EQ(route->decode.id.value(), c.decode);
  EXPECT_EQ(route->prefill.has_value() ? route->prefill->id.value() : "",
            c.prefill);
  EXPECT_FALSE(route->reason.empty());
}

INSTANTIATE_TEST_SUITE_P(All, RouterTable, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace baton::gateway
