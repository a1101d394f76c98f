#include "worker/sampling/sampling_chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "worker/sampling/block_scan.h"
#include "worker/sampling/philox.h"
#include "worker/sampling/strict_exp.h"

namespace baton::worker {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// StrictExp's floor lies below it.
constexpr double kNegligible = 1e-300;
constexpr float kLargest = std::numeric_limits<float>::max();

// The largest value; kInternal if a value is NaN or +inf, or none is finite.
// Independent lanes, so that the compiler vectorises a loop whose result does
// not depend on the order.
absl::StatusOr<float> FindMaximum(std::span<const float> row) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  std::array<int, kLanes> bad{};
  lanes.fill(kMinusInfinity);
  const size_t whole = row.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float value = row[i + j];
      lanes[j] = value > lanes[j] ? value : lanes[j];
      bad[j] |= !(value <= kLargest);
    }
  }
  float maximum = *std::max_element(lanes.begin(), lanes.end());
  bool any_bad = std::any_of(bad.begin(), bad.end(), [](int b) { return b; });
  for (float value : row.subspan(whole)) {
    maximum = value > maximum ? value : maximum;
    any_bad |= !(value <= kLargest);
  }
  if (any_bad) return absl::InternalError("logits are not finite");
  if (maximum == kMinusInfinity) {
    return absl::InternalError("no token is left to sample");
  }
  return maximum;
}

// Sum of e^((x - maximum) / temperature) in ascending order of ids.
double SumOfExponentials(std::span<const float> row, double maximum,
                         double temperature) {
  constexpr size_t kChunk = 256;
  std::array<double, kChunk> weights;
  double sum = 0;
  for (size_t start = 0; start < row.size(); start += kChunk) {
    const size_t count = std::min(kChunk, row.size() - start);
    // Clamped in a loop of its own: next to the polynomial the compiler makes
    // a branch of it and vectorises nothing.
    for (size_t i = 0; i < count; ++i) {
      const double x = (row[start + i] - maximum) / temperature;
      weights[i] = x < kLowestExponent ? kLowestExponent : x;
    }
    for (size_t i = 0; i < count; ++i) {
      weights[i] = StrictExpInRange(weights[i]);
    }
    for (size_t i = 0; i < count; ++i) sum += weights[i];
  }
  return sum;
}

bool NeedsHistory(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0 ||
         params.frequency_penalty != 0;
}

double Penalise(double logit, const TokenHistory::Counts& counts,
                const SamplingParams& params) {
  const double repetition = params.repetition_penalty;
  logit = logit > 0 ? logit / repetition : logit * repetition;
  if (counts.output > 0) {
    logit -= params.presence_penalty;
    logit -= static_cast<double>(params.frequency_penalty) * counts.output;
  }
  return logit;
}

// Steps 1 and 2 never turn a finite logit into an infinite one, however large
// the penalty; a broken logit stays visible.
float Round(double logit) {
  if (!std::isfinite(logit)) return static_cast<float>(logit);
  return static_cast<float>(std::clamp<double>(logit, -kLargest, kLargest));
}

absl::Status CheckInRow(TokenId token, std::span<const float> row) {
  if (token >= 0 && static_cast<size_t>(token) < row.size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("token ", token, " is outside the vocabulary"));
}

}  // namespace

SamplingChain::SamplingChain()
    : SamplingChain([](uint64_t seed, uint32_t position) {
        return UniformAt(seed, position, 0, DrawPurpose::kToken);
      }) {}

absl::StatusOr<SampledToken> SamplingChain::Sample(const SamplingInput& input) {
  BATON_ASSIGN_OR_RETURN(const std::span<const float> row, Adjust(input));
  BATON_ASSIGN_OR_RETURN(const float maximum, FindMaximum(row));
  cursor_.Start(row, maximum);
  SampledToken sampled;
  if (input.params.temperature == 0) {
    ScanBlocks(
        row, [=](float x) { return x == maximum; },
        [&](size_t i) {
          sampled.token = static_cast<TokenId>(i);
          return false;
        });
  } else {
    sampled.token = Draw(input, row, maximum);
  }
  if (input.params.logprobs) {
    AddLogprobs(input.params, row, maximum, &sampled);
  }
  return sampled;
}

absl::StatusOr<std::span<const float>> SamplingChain::Adjust(
    const SamplingInput& input) {
  const SamplingParams& params = input.params;
  const bool penalties =
      NeedsHistory(params) && !input.history.counts().empty();
  if (params.logit_bias.empty() && input.masked.empty() && !penalties) {
    return input.logits;
  }
  adjusted_.assign(input.logits.begin(), input.logits.end());
  // Bias and penalties of one token are added up in double and rounded once,
  // so a biased token takes its penalty here, not in the loop below.
  absl::flat_hash_map<TokenId, double> biased;
  for (const auto& [token, bias] : params.logit_bias) {
    BATON_RETURN_IF_ERROR(CheckInRow(token, adjusted_));
    biased.try_emplace(token, adjusted_[token]).first->second += bias;
  }
  if (penalties) {
    for (const auto& [token, counts] : input.history.counts()) {
      BATON_RETURN_IF_ERROR(CheckInRow(token, adjusted_));
      const auto it = biased.find(token);
      if (it != biased.end()) {
        it->second = Penalise(it->second, counts, params);
      } else {
        adjusted_[token] = Round(Penalise(adjusted_[token], counts, params));
      }
    }
  }
  for (const auto& [token, logit] : biased) {
    adjusted_[token] = Round(logit);
  }
  for (TokenId token : input.masked) {
    BATON_RETURN_IF_ERROR(CheckInRow(token, adjusted_));
    // A broken row must stay visible.
    if (!std::isnan(adjusted_[token])) adjusted_[token] = kMinusInfinity;
  }
  return std::span<const float>(adjusted_);
}

size_t SamplingChain::CountKept(const SamplingParams& params,
                                std::span<const float> row, float maximum) {
  const size_t vocabulary = row.size();
  size_t kept = vocabulary;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < vocabulary) {
    kept = params.top_k;
  }
  if (params.top_p >= 1.0f && params.min_p <= 0) return kept;
  double total = 0;
  if (params.top_p < 1.0f && kept == vocabulary) {
    total = SumOfExponentials(row, maximum, 1.0);
  } else if (params.top_p < 1.0f) {
    for (size_t i = 0; i < kept; ++i) {
      const Candidate* candidate = cursor_.At(i);
      if (candidate == nullptr) break;
      total += StrictExp(static_cast<double>(candidate->logit) - maximum);
    }
  }
  const double wanted = params.top_p < 1.0f
                            ? static_cast<double>(params.top_p) * total
                            : std::numeric_limits<double>::infinity();
  double cumulative = 0;
  for (size_t i = 0; i < kept; ++i) {
    const Candidate* candidate = cursor_.At(i);
    if (candidate == nullptr) return i;
    const double weight =
        StrictExp(static_cast<double>(candidate->logit) - maximum);
    // The first candidate has weight 1 and always stays.
    if (weight < params.min_p) return i;
    cumulative += weight;
    if (cumulative >= wanted) return i + 1;
  }
  return kept;
}

TokenId SamplingChain::Draw(const SamplingInput& input,
                            std::span<const float> row, float maximum) {
  const size_t kept = CountKept(input.params, row, maximum);
  const double temperature = input.params.temperature;
  const auto weight = [&](const Candidate& candidate) {
    return StrictExp((static_cast<double>(candidate.logit) - maximum) /
                     temperature);
  };
  double total = 0;
  if (kept == row.size()) {
    total = SumOfExponentials(row, maximum, temperature);
  } else {
    for (size_t i = 0; i < kept; ++i) {
      const Candidate* candidate = cursor_.At(i);
      if (candidate == nullptr) break;
      total += weight(*candidate);
    }
  }
  const double target = total * uniform_(input.params.seed, input.position);
  double cumulative = 0;
  TokenId token = cursor_.At(0)->token;
  for (size_t i = 0; i < kept; ++i) {
    const Candidate* candidate = cursor_.At(i);
    if (candidate == nullptr) break;
    const double w = weight(*candidate);
    // Rounding left the target above the last weight that counts.
    if (w < kNegligible) break;
    token = candidate->token;
    cumulative += w;
    if (cumulative > target) break;
  }
  return token;
}

void SamplingChain::AddLogprobs(const SamplingParams& params,
                                std::span<const float> row, float maximum,
                                SampledToken* sampled) {
  const double log_total = std::log(SumOfExponentials(row, maximum, 1.0));
  const auto logprob = [&](float logit) {
    return static_cast<float>((static_cast<double>(logit) - maximum) -
                              log_total);
  };
  sampled->logprob = logprob(row[sampled->token]);
  for (size_t i = 0; i < params.top_logprobs; ++i) {
    const Candidate* candidate = cursor_.At(i);
    if (candidate == nullptr) break;
    sampled->top_logprobs.push_back(
        {candidate->token, logprob(candidate->logit)});
  }
}

}  // namespace baton::worker
