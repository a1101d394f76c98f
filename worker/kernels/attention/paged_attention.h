// Attention over the paged cache, and the write of new rows into it. Plain
// C++: knows nothing of ggml (worker/graph/kernel_ops.h is the seam).
//
// One order of additions for every row, whatever the number of rows, threads
// or sequences and whatever the instruction set:
//   - a row's positions are cut into segments of 1,024, at absolute positions;
//     in each, it visits its cache blocks of 64 positions in ascending order,
//     with one online-softmax update a block (Milakov and Gimelshein,
//     arXiv:1805.02867);
//   - the segments' results are merged in ascending order: so that many threads
//     can share a long sequence's one row, and one thread gives the same bits;
//   - q is scaled first; q·k is one chain of fma in ascending dimension;
//   - the weights of a block are summed by lane, then by one tree (lanes.h);
//   - the values are fma in ascending position;
//   - exp is a polynomial of our own, since libm differs between machines.
// The scalar, AVX2 and AVX-512 forms therefore give identical bits. Both cache
// types follow the same order: half-precision rows are widened exactly first,
// f32 rows are used where they lie.
#ifndef BATON_WORKER_KERNELS_ATTENTION_PAGED_ATTENTION_H_
#define BATON_WORKER_KERNELS_ATTENTION_PAGED_ATTENTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "worker/kernels/attention/kv_type.h"
#include "worker/kernels/kernel_form.h"

namespace baton::worker {

struct AttentionForms;
struct AttentionUnit;
class AttentionTiles;
class TileAttention;

inline constexpr uint32_t kBlockTokens = 64;
inline constexpr uint32_t kSegmentTokens = 1024;

// The cache's memory: block b starts at arena + b * block_bytes and holds
// [layers][K, V][kv_heads][kBlockTokens][head_dim] elements of `type`.
struct CacheShape {
  std::byte* arena = nullptr;
  uint64_t block_bytes = 0;
  uint32_t layers = 0;
  uint32_t heads = 0;  // query heads, a multiple of kv_heads
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;  // a multiple of 16, at most kMaxHeadDim
  KvType type = KvType::kF16;

  // What a block needs; block_bytes is at least this.
  constexpr uint64_t ContentBytes() const {
    return uint64_t{2} * layers * kv_heads * kBlockTokens * head_dim *
           KvElementBytes(type);
  }
  // Of one KV head in a block: [kBlockTokens][head_dim]; `value` = 0 for K, 1
  // for V.
  std::byte* Rows(uint32_t block, uint32_t layer, uint32_t value,
                  uint32_t kv_head) const {
    const uint64_t index =
        (static_cast<uint64_t>(layer) * 2 + value) * kv_heads + kv_head;
    return arena + block * block_bytes +
           index * kBlockTokens * head_dim * KvElementBytes(type);
  }
};
inline constexpr uint32_t kMaxHeadDim = 512;

// Consecutive rows of one sequence. Row r of the run is row first_row + r of
// the step's matrices and stands at position start_position + r.
struct RowRun {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  uint32_t start_position = 0;
  std::span<const uint32_t> block_table;  // covers all its positions
};

// Divides the rows of a step among threads and holds their scratch memory. One
// thread sets the step; then all threads of a step may call Write and Attend,
// each with its own `thread` (0 .. threads - 1), with a barrier between the
// Write and the Attend of a layer.
class PagedAttention {
 public:
  // head_dim and heads must satisfy CacheShape. Uses `form`.
  PagedAttention(const CacheShape& shape, int threads, KernelForm form);
  ~PagedAttention();

  // The block tables must stay valid until the last Attend of the step.
  void SetStep(std::span<const RowRun> runs);

  // Stores K and V rows of `layer` as elements of the cache's type. k, v:
  // [rows, kv_heads, head_dim], rows `k_stride` and `v_stride` floats apart.
  void Write(uint32_t layer, const float* k, size_t k_stride, const float* v,
             size_t v_stride, int thread, int threads) const;

  // out[row, head] = softmax(q[row, head] . K / sqrt(head_dim)) V over the
  // positions 0 .. own. q, out: [rows, heads, head_dim], rows `q_stride` and
  // `out_stride` floats apart.
  void Attend(uint32_t layer, const float* q, size_t q_stride, float* out,
              size_t out_stride, int thread, int threads);

  const CacheShape& shape() const { return shape_; }
  KernelForm form() const { return form_; }

 private:
  // Writes the head_dim elements of one row.
  void StoreRow(const float* from, std::byte* to) const;
  // Puts the states of a split tile's segment where the other threads' are.
  void KeepPart(const AttentionUnit& unit, TileAttention* attention);
  // Ends a KV head of a split tile if `unit` was the last of it.
  void FinishTile(const AttentionUnit& unit, float* out, size_t out_stride);

  const CacheShape shape_;
  const KernelForm form_;
  const AttentionForms* const forms_;
  std::vector<std::unique_ptr<TileAttention>> per_thread_;
  std::vector<RowRun> runs_;
  uint32_t rows_ = 0;
  const std::unique_ptr<AttentionTiles> tiles_;
  // Of split tiles (attention_tiles.h).
  std::vector<float> results_;
  std::vector<std::atomic<uint32_t>> counters_;
};

// The same attention in double precision with no blocks and no order to keep:
// the oracle for tests. q, out: [heads, head_dim] of one row at `position`.
void ReferenceAttention(const CacheShape& shape, uint32_t layer,
                        std::span<const uint32_t> block_table,
                        uint32_t position, const float* q, double* out);

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_PAGED_ATTENTION_H_
