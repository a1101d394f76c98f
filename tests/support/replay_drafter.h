// Drafts from a script: what a sequence will really write, with mistakes at
// chosen places. So a test decides how much of a draft is accepted.
#ifndef BATON_TESTS_SUPPORT_REPLAY_DRAFTER_H_
#define BATON_TESTS_SUPPORT_REPLAY_DRAFTER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "worker/speculation/drafter.h"

namespace baton::worker {

class ReplayDrafter final : public Drafter {
 public:
  // Of each hundred tokens `mistakes` are drafted wrong, the same ones in
  // every draft; drafts have `length` tokens, or, if 0, varying numbers.
  ReplayDrafter(uint32_t length, uint32_t mistakes, uint32_t vocabulary)
      : length_(length), mistakes_(mistakes), vocabulary_(vocabulary) {}

  // All tokens of the sequence, from its prompt's first.
  void Script(SequenceId sequence, std::vector<TokenId> tokens) {
    scripts_[sequence.value()] = std::move(tokens);
  }

  DraftMethods methods() const override { return DraftMethods::All(); }

  std::vector<Draft> Propose(std::span<const DraftRequest> requests) override {
    std::vector<Draft> drafts;
    for (const DraftRequest& request : requests) {
      std::vector<TokenId> draft;
      const auto& script = scripts_[request.sequence.value()];
      const uint32_t start = static_cast<uint32_t>(request.tokens.size());
      const uint32_t wanted = length_ != 0 ? length_ : Hash(start) % 9;
      for (uint32_t i = start; i < start + std::min(wanted, request.most);
           ++i) {
        TokenId token = i < script.size() ? script[i] : 0;
        if (Hash(i) % 100 < mistakes_) {
          token = static_cast<TokenId>((static_cast<uint32_t>(token) + 1) %
                                       vocabulary_);
        }
        draft.push_back(token);
      }
      drafts.push_back({std::move(draft), DraftMethod::kNgram});
    }
    return drafts;
  }

  void Forget(SequenceId sequence) override {
    scripts_.erase(sequence.value());
  }

  size_t scripts() const { return scripts_.size(); }

 private:
  static uint32_t Hash(uint32_t position) {
    return (position * 2654435761u) >> 7;
  }

  const uint32_t length_, mistakes_, vocabulary_;
  std::map<uint64_t, std::vector<TokenId>> scripts_;
};

}  // namespace baton::worker

#endif  // BATON_TESTS_SUPPORT_REPLAY_DRAFTER_H_
