#include "worker/perplexity/position.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace baton::worker {

void LogSoftmax(std::span<const float> logits, std::vector<double>* result) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = std::log(sum);
  result->resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    (*result)[i] = logits[i] - largest - log_sum;
  }
}

PositionDivergence CompareWithBase(std::span<const double> model,
                                   std::span<const double> base, TokenId next) {
  PositionDivergence result;
  for (size_t i = 0; i < base.size(); ++i) {
    const double p = std::exp(base[i]);
    // A token that the base excludes adds nothing, whatever the model says.
    if (p > 0) result.kld += p * (base[i] - model[i]);
  }
  // The sum over a whole vocabulary may round to just below.
  if (result.kld < 0) result.kld = 0;
  const auto index = static_cast<size_t>(next);
  result.probability_difference =
      std::exp(model[index]) - std::exp(base[index]);
  const auto top = [](std::span<const double> values) {
    return std::max_element(values.begin(), values.end()) - values.begin();
  };
  result.same_top = top(model) == top(base);
  return result;
}

}  // namespace baton::worker
