// Finds the few values of a row that are wanted.
#ifndef BATON_WORKER_SAMPLING_BLOCK_SCAN_H_
#define BATON_WORKER_SAMPLING_BLOCK_SCAN_H_

#include <cstddef>
#include <span>

namespace baton::worker {

// Calls visit(i) for every i in ascending order with wanted(row[i]), until a
// call returns false. A block without any is passed over by a loop without
// branches, which the compiler vectorises.
template <typename Wanted, typename Visit>
void ScanBlocks(std::span<const float> row, Wanted wanted, Visit visit) {
  constexpr size_t kBlock = 64;
  size_t start = 0;
  for (; start + kBlock <= row.size(); start += kBlock) {
    int any = 0;
    for (size_t i = 0; i < kBlock; ++i) any |= wanted(row[start + i]) ? 1 : 0;
    if (any == 0) continue;
    for (size_t i = start; i < start + kBlock; ++i) {
      if (wanted(row[i]) && !visit(i)) return;
    }
  }
  for (size_t i = start; i < row.size(); ++i) {
    if (wanted(row[i]) && !visit(i)) return;
  }
}

}  // namespace baton::worker

#endif  // BATON_WORKER_SAMPLING_BLOCK_SCAN_H_
