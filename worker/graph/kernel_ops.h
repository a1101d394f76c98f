// The seam between ggml's graphs and our kernels: builds the custom operations
// of attention and of the matrix products. Those of the rows between them are
// in row_ops.h.
#ifndef BATON_WORKER_GRAPH_KERNEL_OPS_H_
#define BATON_WORKER_GRAPH_KERNEL_OPS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "ggml.h"
#include "worker/kernels/attention/paged_attention.h"
#include "worker/kernels/matmul/matmul.h"

namespace baton::worker {

// What the two operations of a layer need at run time. ggml keeps the
// address, so it must outlive every graph that was built with it.
struct AttentionLayer {
  PagedAttention* attention = nullptr;
  uint32_t layer = 0;
};

// Stores k and v ([head_dim, kv_heads, rows], f32, contiguous) into the cache.
// The result has no meaning but its place in the order: name it in
// AttendOp.
ggml_tensor* WriteCacheOp(ggml_context* context, ggml_tensor* k, ggml_tensor* v,
                          AttentionLayer* layer);

// Attention of q ([head_dim, heads, rows], f32, contiguous) after `written`.
// Result: [head_dim * heads, rows].
ggml_tensor* AttendOp(ggml_context* context, ggml_tensor* q,
                      ggml_tensor* written, AttentionLayer* layer);

// The format in which our kernels know matrices of `type`; none for others.
std::optional<WeightFormat> KernelFormat(ggml_type type);

// Rows of x ([columns, rows], f32) rounded to blocks for products: [row bytes,
// rows] of int8. `forms` must outlive the graph, here and below.
ggml_tensor* QuantiseOp(ggml_context* context, ggml_tensor* x,
                        ActivationFormat format, const MatMulForms* forms);

// weight ([columns, outputs], of a type with a KernelFormat) times rows: from
// QuantiseOp, or [columns, rows] of f32 where the weight is float. Result:
// [outputs, rows], f32.
ggml_tensor* MultiplyOp(ggml_context* context, ggml_tensor* weight,
                        ggml_tensor* rows, const MatMulForms* forms);

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_KERNEL_OPS_H_
