// Perplexity of a text by chunks, as llama.cpp's llama-perplexity defines it:
// each chunk starts with an empty cache, its first token is BOS where the model
// adds one, and only tokens of its second half are scored, so that every
// prediction sees at least half a context.
//
// With a base model, its rows run beside the model's, and each position is
// compared with it.
#ifndef BATON_WORKER_PERPLEXITY_CHUNK_SCORER_H_
#define BATON_WORKER_PERPLEXITY_CHUNK_SCORER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "worker/model/forward.h"
#include "worker/perplexity/statistics.h"

namespace baton::worker {

// Rows of one step, and so the memory of a run: logits of kStepRows *
// vocabulary * 4 bytes a model, and one row of log-probabilities (8 bytes an
// entry) a model.
inline constexpr uint32_t kStepRows = 64;

// The shortest context with a scored token.
inline constexpr uint32_t kShortestContext = 3;

// A forward pass and the pool's blocks that hold a chunk's rows. Pointees
// outlive the scorer.
struct ChunkRunner {
  Forward* forward = nullptr;
  std::span<const uint32_t> block_table;  // covers context - 1 positions
};

// Thread-compatible; Score calls the forward passes.
class ChunkScorer {
 public:
  struct Options {
    uint32_t context = 512;  // tokens of a chunk
    TokenId bos = -1;        // takes the place of a chunk's first; -1 = none
    // Called after each step with its rows; false ends the run.
    std::function<bool(uint32_t)> after_step;
  };

  // Errors: kInvalidArgument (context below kShortestContext or above a
  // model's, blocks that do not cover it, vocabularies of different sizes).
  static absl::StatusOr<std::unique_ptr<ChunkScorer>> Create(
      Options options, ChunkRunner model, std::optional<ChunkRunner> base);

  // Adds a chunk of `context` tokens: those at context / 2 + 1 and later are
  // scored. Errors: kInternal (logits that are not finite, a failed step),
  // kCancelled (after_step said so). After an error the figures are of no use.
  absl::Status Score(std::span<const TokenId> chunk);

  // Of the negative log-likelihood of scored tokens, in nats.
  const RunningMean& nll() const { return nll_; }
  // Empty without a base.
  const RunningMean& base_nll() const { return base_nll_; }
  const DivergenceStatistics& divergence() const { return divergence_; }

 private:
  ChunkScorer(Options options, ChunkRunner model,
              std::optional<ChunkRunner> base)
      : options_(std::move(options)), model_(model), base_(base) {}

  // Runs `rows` from `start`; scores them if `next` (the token after each) is
  // not empty.
  absl::Status Step(std::span<const TokenId> rows, uint32_t start,
                    std::span<const TokenId> next);
  absl::Status ScoreRow(std::span<const float> logits,
                        std::span<const float> base_logits, TokenId next);

  const Options options_;
  const ChunkRunner model_;
  const std::optional<ChunkRunner> base_;
  RunningMean nll_;
  RunningMean base_nll_;
  DivergenceStatistics divergence_;
  // Of the row at hand.
  std::vector<double> log_probabilities_;
  std::vector<double> base_log_probabilities_;
};

}  // namespace baton::worker

#endif  // BATON_WORKER_PERPLEXITY_CHUNK_SCORER_H_
