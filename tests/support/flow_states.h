// A RequestFlow brought into each of its states.
#ifndef BATON_TESTS_SUPPORT_FLOW_STATES_H_
#define BATON_TESTS_SUPPORT_FLOW_STATES_H_

#include <memory>
#include <string>
#include <vector>

#include "gateway/flow/request_flow.h"
#include "tests/support/cluster_builder.h"
#include "tests/support/flow_harness.h"

namespace baton::testing_support {

inline std::vector<gateway::WorkerSnapshot> Workers(
    const std::vector<std::string>& prefill,
    const std::vector<std::string>& decode) {
  std::vector<gateway::WorkerSnapshot> workers;
  for (const auto& id : prefill) {
    workers.push_back(MakeWorker(id, gateway::WorkerRole::kPrefill));
  }
  for (const auto& id : decode) {
    workers.push_back(MakeWorker(id, gateway::WorkerRole::kDecode));
  }
  return workers;
}

// A flow in each of its states, with a prefill and two decode workers.
inline std::unique_ptr<FlowHarness> InState(gateway::FlowState state,
                                            uint32_t max_tokens = 10) {
  auto h = std::make_unique<FlowHarness>(MakeSpec("prompt", max_tokens),
                                         Workers({"p1"}, {"d1", "d2"}));
  if (state == gateway::FlowState::kQueued) return h;
  h->Admit();
  if (state == gateway::FlowState::kReserving) return h;
  h->Reserved();
  if (state == gateway::FlowState::kPrefilling) return h;
  h->First('a');
  h->Manifest();
  if (state == gateway::FlowState::kTransferring) return h;
  h->Started();
  h->Tokens("bc");
  return h;
}

inline constexpr gateway::FlowState kLive[] = {
    gateway::FlowState::kQueued, gateway::FlowState::kReserving,
    gateway::FlowState::kPrefilling, gateway::FlowState::kTransferring,
    gateway::FlowState::kDecoding};
inline constexpr gateway::FlowState kWithDecode[] = {
    gateway::FlowState::kReserving, gateway::FlowState::kPrefilling,
    gateway::FlowState::kTransferring, gateway::FlowState::kDecoding};

}  // namespace baton::testing_support

#endif  // BATON_TESTS_SUPPORT_FLOW_STATES_H_
