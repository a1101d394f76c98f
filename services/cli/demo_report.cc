#include "services/cli/demo_report.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/cli/base/table.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;
using Cell = std::function<std::string(const Answer&)>;

std::string One(double value) { return absl::StrFormat("%.1f", value); }

std::string Path(const Answer& answer) {
  if (answer.prefill_worker.empty()) return answer.decode_worker;
  return absl::StrCat(answer.prefill_worker, " -> ", answer.decode_worker);
}

Json ToJson(const Answer& answer) {
  return {{"token_ids", answer.token_ids},
          {"prompt_tokens", answer.prompt_tokens},
          {"cached_tokens", answer.cached_tokens},
          {"local_cache_tokens", answer.local_cache_tokens},
          {"kv_store_tokens", answer.kv_store_tokens},
          {"completion_tokens", answer.completion_tokens},
          {"ttft_ms", answer.ttft_ms},
          {"prompt_per_second", answer.PromptRate()},
          {"predicted_per_second", answer.GenerationRate()},
          {"handoff_bytes", answer.handoff_bytes},
          {"handoff_ms", answer.handoff_ms},
          {"prefill_worker", answer.prefill_worker},
          {"decode_worker", answer.decode_worker}};
}

}  // namespace

bool SameTokens(const Answer& a, const Answer& b) {
  return !a.token_ids.empty() && a.token_ids == b.token_ids;
}

size_t FirstDifference(const Answer& a, const Answer& b) {
  const size_t both = std::min(a.token_ids.size(), b.token_ids.size());
  size_t i = 0;
  while (i < both && a.token_ids[i] == b.token_ids[i]) ++i;
  return i;
}

std::string DemoReport(const std::vector<Answer>& cluster,
                       const std::vector<Answer>& single) {
  std::vector<std::vector<std::string>> rows = {{""}};
  for (size_t i = 0; i < cluster.size(); ++i) {
    rows.front().push_back(absl::StrCat("prompt ", i + 1));
  }
  const auto add = [&](const std::string& name, const Cell& cell) {
    rows.push_back({name});
    for (const Answer& answer : cluster) rows.back().push_back(cell(answer));
  };
  add("prompt tokens",
      [](const Answer& a) { return absl::StrCat(a.prompt_tokens); });
  add("  of them from a worker's cache",
      [](const Answer& a) { return absl::StrCat(a.local_cache_tokens); });
  add("  of them from the KV store",
      [](const Answer& a) { return absl::StrCat(a.kv_store_tokens); });
  add("prompt tokens/s", [](const Answer& a) { return One(a.PromptRate()); });
  add("time to first token (ms)",
      [](const Answer& a) { return One(a.ttft_ms); });
  add("generated tokens",
      [](const Answer& a) { return absl::StrCat(a.completion_tokens); });
  add("generated tokens/s",
      [](const Answer& a) { return One(a.GenerationRate()); });
  add("handed over (bytes)",
      [](const Answer& a) { return absl::StrCat(a.handoff_bytes); });
  add("handed over (ms)", [](const Answer& a) { return One(a.handoff_ms); });
  add("served by", Path);
  rows.push_back({"identical to one process"});
  for (size_t i = 0; i < cluster.size(); ++i) {
    const bool same = i < single.size() && SameTokens(cluster[i], single[i]);
    rows.back().push_back(same ? "yes" : "NO");
  }
  return RenderTable(rows, true);
}

std::string DemoJson(const std::vector<Answer>& cluster,
                     const std::vector<Answer>& single) {
  Json json = {{"questions", Json::array()}};
  bool identical = cluster.size() == single.size() && !cluster.empty();
  for (size_t i = 0; i < std::min(cluster.size(), single.size()); ++i) {
    const bool same = SameTokens(cluster[i], single[i]);
    identical = identical && same;
    json["questions"].push_back({{"cluster", ToJson(cluster[i])},
                                 {"one_process", ToJson(single[i])},
                                 {"identical", same}});
  }
  json["identical"] = identical;
  return json.dump(2) + "\n";
}

}  // namespace baton::cli
