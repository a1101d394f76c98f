#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/kernels/attention/paged_attention.h"
#include "worker/kernels/half.h"

namespace baton::worker {

void ReferenceAttention(const CacheShape& shape, uint32_t layer,
                        std::span<const uint32_t> block_table,
                        uint32_t position, const float* q, double* out) {
  const uint32_t dim = shape.head_dim;
  const auto at = [&](uint32_t p, uint32_t value, uint32_t kv, uint32_t d) {
    const uint64_t index =
        (((static_cast<uint64_t>(layer) * 2 + value) * shape.kv_heads + kv) *
             kBlockTokens +
         p % kBlockTokens) *
            dim +
        d;
    const std::byte* block =
        shape.arena + block_table[p / kBlockTokens] * shape.block_bytes;
    return static_cast<double>(
        shape.type == KvType::kF32
            ? reinterpret_cast<const float*>(block)[index]
            : HalfToFloat(reinterpret_cast<const uint16_t*>(block)[index]));
  };
  std::vector<double> weights(position + 1);
  for (uint32_t head = 0; head < shape.heads; ++head) {
    const uint32_t kv = head / (shape.heads / shape.kv_heads);
    for (uint32_t p = 0; p <= position; ++p) {
      double dot = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        dot += q[head * dim + d] * at(p, 0, kv, d);
      }
      weights[p] = dot / std::sqrt(static_cast<double>(dim));
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (uint32_t d = 0; d < dim; ++d) {
      double value = 0;
      for (uint32_t p = 0; p <= position; ++p) {
        value += weights[p] * at(p, 1, kv, d);
      }
      out[head * dim + d] = value / sum;
    }
  }
}

}  // namespace baton::worker
