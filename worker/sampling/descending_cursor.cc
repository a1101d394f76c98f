#include "worker/sampling/descending_cursor.h"

#include <algorithm>
#include <limits>

#include "worker/sampling/block_scan.h"

namespace baton::worker {
namespace {

constexpr float kFirstWidth = 4.0f;
// exp(-64) is far below what a draw can reach: the rest is one window.
constexpr float kLastWidth = 64.0f;

constexpr size_t kFirstChunk = 256;

// A strict total order: the walk does not depend on the sorting algorithm.
bool Before(const Candidate& a, const Candidate& b) {
  if (a.logit != b.logit) return a.logit > b.logit;
  return a.token < b.token;
}

}  // namespace

void DescendingCursor::Start(std::span<const float> row, float maximum) {
  row_ = row;
  maximum_ = maximum;
  lower_ = std::numeric_limits<float>::infinity();
  width_ = kFirstWidth;
  exhausted_ = false;
  collected_.clear();
  sorted_ = 0;
}

const Candidate* DescendingCursor::At(size_t i) {
  while (i >= sorted_) {
    if (sorted_ < collected_.size()) {
      SortChunk();
    } else if (exhausted_) {
      return nullptr;
    } else {
      CollectWindow();
    }
  }
  return &collected_[i];
}

void DescendingCursor::SortChunk() {
  const auto begin = collected_.begin() + sorted_;
  const size_t size =
      std::min(std::max(kFirstChunk, sorted_), collected_.size() - sorted_);
  const auto end = begin + size;
  if (end != collected_.end()) {
    std::nth_element(begin, end, collected_.end(), Before);
  }
  std::sort(begin, end, Before);
  sorted_ += size;
}

void DescendingCursor::CollectWindow() {
  const bool last = width_ > kLastWidth;
  const float from =
      last ? std::numeric_limits<float>::lowest()
           : std::max(maximum_ - width_, std::numeric_limits<float>::lowest());
  const float below = lower_;
  ScanBlocks(
      row_, [=](float x) { return (x >= from) & (x < below); },
      [&](size_t i) {
        collected_.push_back({row_[i], static_cast<TokenId>(i)});
        return true;
      });
  lower_ = from;
  width_ *= 2;
  exhausted_ = last;
}

}  // namespace baton::worker
