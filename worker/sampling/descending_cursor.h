// Walks the finite values of a row in descending order (ties: ascending id)
// and sorts no more of the row than the walk needs: values are collected in
// windows below the maximum, each reaching twice as far down as the last, and a
// window is sorted in chunks, each as long as all before it. A language
// model's row has most of its mass within a few nats, so a walk over a
// 49152-token row usually costs one pass. Thread-compatible.
#ifndef BATON_WORKER_SAMPLING_DESCENDING_CURSOR_H_
#define BATON_WORKER_SAMPLING_DESCENDING_CURSOR_H_

#include <cstddef>
#include <span>
#include <vector>

#include "services/base/ids.h"

namespace baton::worker {

struct Candidate {
  float logit = 0;
  TokenId token = 0;
};

class DescendingCursor {
 public:
  // Starts over on `row`, which must outlive the walk. `maximum` is its
  // largest value, finite.
  void Start(std::span<const float> row, float maximum);

  // The i-th largest, or nullptr if fewer values are finite. Valid until the
  // next call.
  const Candidate* At(size_t i);

 private:
  void CollectWindow();
  void SortChunk();

  std::span<const float> row_;
  float maximum_ = 0;
  // Values >= lower_ are collected already.
  float lower_ = 0;
  float width_ = 0;
  bool exhausted_ = false;
  std::vector<Candidate> collected_;
  size_t sorted_ = 0;  // leading candidates that are in their final place
};

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_DESCENDING_CURSOR_H_
