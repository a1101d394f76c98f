// The seam between ggml's graphs and the row kernels (worker/kernels/rows):
// builds the custom operations for what lies between the matrix products.
//
// Activations are f32 without gaps, features in ne[0]. `parameters` must
// outlive every graph that was built with it: ggml keeps the address.
#ifndef BATON_WORKER_GRAPH_ROW_OPS_H_
#define BATON_WORKER_GRAPH_ROW_OPS_H_

#include <vector>

#include "ggml.h"
#include "worker/graph/architecture.h"
#include "worker/graph/weights.h"
#include "worker/kernels/kernel_form.h"
#include "worker/kernels/rows/rows.h"

namespace baton::worker {

// What the operations need at run time.
struct RowParameters {
  const RowForms* forms = nullptr;
  float norm_epsilon = 0;
  RopePairs rope_pairs = RopePairs::kAdjacent;
  std::vector<double> rope_frequencies;
};
// The frequency factors are those of rope_freqs.weight, if the model has it.
RowParameters MakeRowParameters(const Hyperparameters& hp,
                                const Weights& weights, KernelForm form);

// Rows `tokens` ([rows], i32, each below ne[1]) of `table`, a matrix of any
// supported type, as [ne[0], rows].
ggml_tensor* EmbedOp(ggml_context* context, ggml_tensor* table,
                     ggml_tensor* tokens);

// Rows `ids` ([rows], i32, each below ne[1]) of x ([features, any]).
ggml_tensor* GatherOp(ggml_context* context, ggml_tensor* x, ggml_tensor* ids);

// Where the hidden row before each row of a step comes from: an address of
// [embedding] floats, or nullptr for the row before in the step itself.
struct HiddenRows {
  std::vector<const float*> before;  // [rows]
};
// The hidden rows before those of `hidden` ([embedding, rows]).
ggml_tensor* PreviousHiddenOp(ggml_context* context, ggml_tensor* hidden,
                              const HiddenRows* rows);

// RMS norm over ne[0], times weight ([ne[0]]). Result: as x.
ggml_tensor* RmsNormOp(ggml_context* context, ggml_tensor* x,
                       ggml_tensor* weight, const RowParameters* parameters);

// a + b: of equal shape, or b [ne[0]], added to every row.
ggml_tensor* AddOp(ggml_context* context, ggml_tensor* a, ggml_tensor* b,
                   const RowParameters* parameters);

// a + b ([features, rows] both) and its RMS norm times weight.
struct SumAndNorm {
  ggml_tensor* sum = nullptr;
  ggml_tensor* normed = nullptr;
};
SumAndNorm AddNormOp(ggml_context* context, ggml_tensor* a, ggml_tensor* b,
                     ggml_tensor* weight, const RowParameters* parameters);

// silu(gate) * up, both [features, rows].
ggml_tensor* SwiGluOp(ggml_context* context, ggml_tensor* gate, ggml_tensor* up,
                      const RowParameters* parameters);

// The cosines and sines of the rows' positions ([rows], i32), for all RotateOp
// of the step: [4 * frequencies, rows].
ggml_tensor* RopeTableOp(ggml_context* context, ggml_tensor* positions,
                         const RowParameters* parameters);

// x ([head_dim, heads, rows]) turned by the table of its rows.
ggml_tensor* RotateOp(ggml_context* context, ggml_tensor* x, ggml_tensor* table,
                      const RowParameters* parameters);

}  // namespace baton::worker

#endif  // BATON_WORKER_GRAPH_ROW_OPS_H_
