// How things that cost alike are divided among the threads of a step. Not for
// sources that are compiled for an instruction set of their own.
#ifndef BATON_WORKER_KERNELS_SHARE_H_
#define BATON_WORKER_KERNELS_SHARE_H_

#include <cstddef>

namespace baton::worker {

struct Share {
  size_t first = 0, last = 0;  // [first, last)
};

// The share of thread `thread` of `threads` in `count` things.
inline Share ShareOf(size_t count, int thread, int threads) {
  const size_t t = static_cast<size_t>(thread);
  const size_t n = static_cast<size_t>(threads);
  return {count * t / n, count * (t + 1) / n};
}

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_SHARE_H_
