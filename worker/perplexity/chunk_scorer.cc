#include "worker/perplexity/chunk_scorer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "worker/kernels/attention/paged_attention.h"

namespace baton::worker {
namespace {

absl::Status CheckRunner(const ChunkRunner& runner, uint32_t context) {
  if (context > runner.forward->context_length()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a context of ", context, " tokens is longer than the ",
                     "model's ", runner.forward->context_length()));
  }
  if (runner.block_table.size() * kBlockTokens < context - 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        runner.block_table.size(), " blocks do not hold ", context, " tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepLogits> RunRows(const ChunkRunner& runner,
                                   std::span<const TokenId> rows,
                                   uint32_t start, size_t logit_rows) {
  return runner.forward->Run(
      StepBatch{{{.tokens = rows,
                  .start_position = start,
                  .block_table = runner.block_table,
                  .logit_rows = static_cast<uint32_t>(logit_rows)}}});
}

// Adds the negative log-likelihood of `next`.
absl::Status AddNll(const std::vector<double>& log_probabilities, TokenId next,
                    const char* whose, RunningMean* nll) {
  const double value = -log_probabilities[static_cast<size_t>(next)];
  if (!std::isfinite(value)) {
    return absl::InternalError(
        absl::StrCat("the logits of the ", whose, " are not finite"));
  }
  nll->Add(value);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChunkScorer>> ChunkScorer::Create(
    Options options, ChunkRunner model, std::optional<ChunkRunner> base) {
  if (options.context < kShortestContext) {
    return absl::InvalidArgumentError(
        absl::StrCat("a context of ", options.context, " tokens scores none"));
  }
  BATON_RETURN_IF_ERROR(CheckRunner(model, options.context));
  if (base.has_value()) {
    BATON_RETURN_IF_ERROR(CheckRunner(*base, options.context));
    if (model.forward->vocabulary() != base->forward->vocabulary()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the vocabularies differ: ", model.forward->vocabulary(),
                       " and ", base->forward->vocabulary(), " tokens"));
    }
  }
  return std::unique_ptr<ChunkScorer>(
      new ChunkScorer(std::move(options), model, base));
}

absl::Status ChunkScorer::Score(std::span<const TokenId> chunk) {
  if (chunk.size() != options_.context) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a chunk of ", chunk.size(), " tokens, not ", options_.context));
  }
  // The last token is only predicted: its own row is of no use.
  std::vector<TokenId> rows(chunk.begin(), chunk.end() - 1);
  if (options_.bos >= 0) rows[0] = options_.bos;
  const auto end = static_cast<uint32_t>(rows.size());
  const uint32_t first_scored = options_.context / 2;
  for (uint32_t at = 0; at < end;) {
    const bool scored = at >= first_scored;
    const uint32_t count =
        std::min(kStepRows, (scored ? end : first_scored) - at);
    BATON_RETURN_IF_ERROR(
        Step(std::span<const TokenId>(rows).subspan(at, count), at,
             chunk.subspan(at + 1, scored ? count : 0)));
    at += count;
  }
  return absl::OkStatus();
}

absl::Status ChunkScorer::Step(std::span<const TokenId> rows, uint32_t start,
                               std::span<const TokenId> next) {
  BATON_ASSIGN_OR_RETURN(const StepLogits logits,
                         RunRows(model_, rows, start, next.size()));
  StepLogits base_logits;
  if (base_.has_value()) {
    BATON_ASSIGN_OR_RETURN(base_logits,
                           RunRows(*base_, rows, start, next.size()));
  }
  for (uint32_t i = 0; i < next.size(); ++i) {
    BATON_RETURN_IF_ERROR(ScoreRow(
        logits.row(i),
        base_.has_value() ? base_logits.row(i) : std::span<const float>(),
        next[i]));
  }
  if (options_.after_step &&
      !options_.after_step(static_cast<uint32_t>(rows.size()))) {
    return absl::CancelledError("interrupted");
  }
  return absl::OkStatus();
}

absl::Status ChunkScorer::ScoreRow(std::span<const float> logits,
                                   std::span<const float> base_logits,
                                   TokenId next) {
  LogSoftmax(logits, &log_probabilities_);
  BATON_RETURN_IF_ERROR(AddNll(log_probabilities_, next, "model", &nll_));
  if (!base_.has_value()) return absl::OkStatus();
  LogSoftmax(base_logits, &base_log_probabilities_);
  BATON_RETURN_IF_ERROR(
      AddNll(base_log_probabilities_, next, "base", &base_nll_));
  divergence_.Add(
      CompareWithBase(log_probabilities_, base_log_probabilities_, next));
  return absl::OkStatus();
}

}  // namespace baton::worker
