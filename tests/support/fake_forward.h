// A forward pass without a model. The KV row of a token is a hash of the token
// and of all rows before it, kept in the pool's blocks just as a model keeps
// its rows; logits are a hash of the rows up to the token's own. A wrong block
// table, a stale or missing row, a wrong position: each changes the output.
#ifndef BATON_TESTS_SUPPORT_FAKE_FORWARD_H_
#define BATON_TESTS_SUPPORT_FAKE_FORWARD_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "worker/cache/block_pool.h"
#include "worker/model/forward.h"

namespace baton::worker {

class FakeForward final : public Forward {
 public:
  static constexpr uint64_t kRowBytes = sizeof(uint64_t);

  // `pool` has blocks of kRowBytes * block_tokens bytes and outlives this.
  FakeForward(BlockPool* pool, uint32_t vocabulary, uint32_t context_length)
      : pool_(pool), vocabulary_(vocabulary), context_(context_length) {}

  // Called at the start of each Run.
  std::function<void(const StepBatch&)> on_run;
  // Rows that feed this token have NaN logits.
  std::optional<TokenId> broken_token;
  // The Run that feeds this token fails as a whole.
  std::optional<TokenId> failing_token;

  absl::StatusOr<StepLogits> Run(const StepBatch& batch) override {
    if (on_run) on_run(batch);
    logits_.clear();
    for (const SequenceRows& rows : batch.sequences) {
      if (!RunSequence(rows)) {
        return absl::InternalError("fake: a sequence's rows are malformed");
      }
    }
    if (std::exchange(failing_, false)) {
      return absl::InternalError("fake: asked to fail");
    }
    return StepLogits{logits_, vocabulary_};
  }

  uint32_t vocabulary() const override { return vocabulary_; }
  uint32_t context_length() const override { return context_; }

  // What the logits after `tokens` must be, from the tokens alone.
  static std::vector<float> LogitsAfter(std::span<const TokenId> tokens,
                                        uint32_t vocabulary) {
    uint64_t fold = 0;
    for (TokenId token : tokens) fold = Mix(fold, RowOf(token, fold));
    std::vector<float> logits;
    AppendLogits(fold, vocabulary, &logits);
    return logits;
  }

 private:
  // splitmix64's finaliser over both.
  static uint64_t Mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  static uint64_t RowOf(TokenId token, uint64_t fold) {
    return Mix(fold + 1, static_cast<uint64_t>(token));
  }

  static void AppendLogits(uint64_t fold, uint32_t vocabulary,
                           std::vector<float>* logits) {
    for (uint32_t v = 0; v < vocabulary; ++v) {
      logits->push_back(static_cast<float>(Mix(fold, v) >> 40) * 0x1p-21f -
                        4.0f);
    }
  }

  std::byte* RowAt(const SequenceRows& rows, uint32_t position) const {
    const uint32_t block_tokens = pool_->block_tokens();
    return pool_->arena() +
           rows.block_table[position / block_tokens] * pool_->block_bytes() +
           position % block_tokens * kRowBytes;
  }

  bool RunSequence(const SequenceRows& rows) {
    const size_t end = rows.start_position + rows.tokens.size();
    if (rows.tokens.empty() || rows.logit_rows > rows.tokens.size() ||
        end > context_ ||
        rows.block_table.size() * pool_->block_tokens() < end) {
      return false;
    }
    uint64_t fold = 0;
    for (uint32_t p = 0; p < end; ++p) {
      if (p >= rows.start_position) {
        const TokenId token = rows.tokens[p - rows.start_position];
        if (token == failing_token) failing_ = true;
        const uint64_t row = RowOf(token, fold);
        std::memcpy(RowAt(rows, p), &row, sizeof(row));
      }
      uint64_t row = 0;
      std::memcpy(&row, RowAt(rows, p), sizeof(row));
      fold = Mix(fold, row);
      if (p + rows.logit_rows < end) continue;
      AppendLogits(fold, vocabulary_, &logits_);
      if (rows.tokens[p - rows.start_position] == broken_token) {
        logits_.back() = std::numeric_limits<float>::quiet_NaN();
      }
    }
    return true;
  }

  BlockPool* const pool_;
  const uint32_t vocabulary_;
  const uint32_t context_;
  bool failing_ = false;
  std::vector<float> logits_;
};

}  // namespace baton::worker

#endif  // BATON_TESTS_SUPPORT_FAKE_FORWARD_H_
