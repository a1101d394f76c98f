// What the logits of one position say, and how far two models are apart there.
// In double, since sums over the vocabulary follow. Pure.
#ifndef BATON_WORKER_PERPLEXITY_POSITION_H_
#define BATON_WORKER_PERPLEXITY_POSITION_H_

#include <span>
#include <vector>

#include "services/base/ids.h"

namespace baton::worker {

// The natural logarithm of softmax(logits). logits: f32 [vocabulary], at least
// one; `result` is resized to them.
void LogSoftmax(std::span<const float> logits, std::vector<double>* result);

struct PositionDivergence {
  // Kullback-Leibler divergence of the model from the base, in nats:
  // sum over the vocabulary of p_base (ln p_base - ln p), at least 0.
  double kld = 0;
  // p - p_base of the token that follows in the text.
  double probability_difference = 0;
  // The likeliest token (of equal ones the smaller id) is the same.
  bool same_top = false;
};

// Both hold log-probabilities [vocabulary] of equal size; `next` is an index.
PositionDivergence CompareWithBase(std::span<const double> model,
                                   std::span<const double> base, TokenId next);

}  // namespace baton::worker

#endif  // BATON_WORKER_PERPLEXITY_POSITION_H_
