#include "worker/graph/row_ops.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>

#include "services/base/status_macros.h"
#include "worker/graph/kernel_ops.h"
#include "worker/kernels/rows/dequantise.h"
#include "worker/kernels/share.h"

namespace baton::worker {
namespace {

const RowParameters& Parameters(void* userdata) {
  return *static_cast<const RowParameters*>(userdata);
}
// ggml hands the address back as it got it; it is only read.
void* UserData(const RowParameters* parameters) {
  return const_cast<RowParameters*>(parameters);
}
const float* Floats(const ggml_tensor* tensor) {
  return static_cast<const float*>(tensor->data);
}
float* Result(ggml_tensor* out) { return static_cast<float*>(out->data); }
const int32_t* Ids(const ggml_tensor* tensor) {
  return static_cast<const int32_t*>(tensor->data);
}
RowShape ShapeOf(const ggml_tensor* x) {
  return {static_cast<size_t>(x->ne[0]), static_cast<size_t>(ggml_nrows(x))};
}

void ReadRow(const ggml_tensor* table, int32_t row, float* out) {
  const size_t columns = static_cast<size_t>(table->ne[0]);
  const uint8_t* from = static_cast<const uint8_t*>(table->data) +
                        static_cast<size_t>(row) * table->nb[1];
  const std::optional<WeightFormat> format = KernelFormat(table->type);
  if (format.has_value()) return DequantiseRow(*format, from, columns, out);
  // The types whose products are ggml's as well.
  ggml_get_type_traits(table->type)->to_float(from, out, table->ne[0]);
}

void RunEmbed(ggml_tensor* out, int thread, int threads, void*) {
  const RowShape shape = ShapeOf(out);
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    ReadRow(out->src[0], Ids(out->src[1])[row],
            Result(out) + row * shape.columns);
  }
}

void RunGather(ggml_tensor* out, int thread, int threads, void*) {
  GatherRows(Floats(out->src[0]), Ids(out->src[1]), ShapeOf(out), Result(out),
             thread, threads);
}

void RunPreviousHidden(ggml_tensor* out, int thread, int threads,
                       void* userdata) {
  const auto& before = static_cast<const HiddenRows*>(userdata)->before;
  const RowShape shape = ShapeOf(out);
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    const float* from = before[row] != nullptr
                            ? before[row]
                            : Floats(out->src[0]) + (row - 1) * shape.columns;
    std::copy_n(from, shape.columns, Result(out) + row * shape.columns);
  }
}

void RunRmsNorm(ggml_tensor* out, int thread, int threads, void* userdata) {
  const RowParameters& parameters = Parameters(userdata);
  RmsNormRows(*parameters.forms, Floats(out->src[0]), Floats(out->src[1]),
              ShapeOf(out), parameters.norm_epsilon, Result(out), thread,
              threads);
}

void RunAdd(ggml_tensor* out, int thread, int threads, void* userdata) {
  AddRows(*Parameters(userdata).forms, Floats(out->src[0]), Floats(out->src[1]),
          ShapeOf(out), Result(out), thread, threads);
}

void RunAddBias(ggml_tensor* out, int thread, int threads, void* userdata) {
  AddBias(*Parameters(userdata).forms, Floats(out->src[0]), Floats(out->src[1]),
          ShapeOf(out), Result(out), thread, threads);
}

void RunAddNorm(ggml_tensor* out, int thread, int threads, void* userdata) {
  const RowParameters& parameters = Parameters(userdata);
  const ggml_tensor* a = out->src[0];
  AddNormRows(*parameters.forms, Floats(a), Floats(out->src[1]),
              Floats(out->src[2]), ShapeOf(a), parameters.norm_epsilon,
              Result(out), Result(out) + ggml_nelements(a), thread, threads);
}

void RunSwiGlu(ggml_tensor* out, int thread, int threads, void* userdata) {
  SwiGluRows(*Parameters(userdata).forms, Floats(out->src[0]),
             Floats(out->src[1]), ShapeOf(out), Result(out), thread, threads);
}

void RunRopeTable(ggml_tensor* out, int thread, int threads, void* userdata) {
  const RowParameters& parameters = Parameters(userdata);
  const RowShape shape = ShapeOf(out);
  const Share share = ShareOf(shape.rows, thread, threads);
  for (size_t row = share.first; row < share.last; ++row) {
    FillRopeRow(parameters.rope_frequencies, parameters.rope_pairs,
                Ids(out->src[0])[row], Result(out) + row * shape.columns);
  }
}

void RunRotate(ggml_tensor* out, int thread, int threads, void* userdata) {
  const RowParameters& parameters = Parameters(userdata);
  HeadShape shape;
  shape.head_dim = static_cast<size_t>(out->ne[0]);
  shape.heads = static_cast<size_t>(out->ne[1]);
  shape.rows = static_cast<size_t>(out->ne[2]);
  shape.dimensions = 2 * parameters.rope_frequencies.size();
  RotateRows(*parameters.forms, parameters.rope_pairs, Floats(out->src[0]),
             Floats(out->src[1]), shape, Result(out), thread, threads);
}

// An operation with an f32 result of the shape of `like`.
ggml_tensor* RowOp(ggml_context* context, const ggml_tensor* like,
                   std::initializer_list<ggml_tensor*> sources,
                   ggml_custom_op_t run, const RowParameters* parameters) {
  for (const ggml_tensor* source : sources) {
    BATON_CHECK(ggml_is_contiguous(source),
                "weights, reshapes and results of operations have no gaps");
  }
  return ggml_custom_4d(context, GGML_TYPE_F32, like->ne[0], like->ne[1],
                        like->ne[2], 1,
                        const_cast<ggml_tensor**>(sources.begin()),
                        static_cast<int>(sources.size()), run, GGML_N_TASKS_MAX,
                        UserData(parameters));
}

ggml_tensor* SelectionOp(ggml_context* context, ggml_tensor* from,
                         ggml_tensor* ids, ggml_custom_op_t run) {
  ggml_tensor* sources[] = {from, ids};
  return ggml_custom_4d(context, GGML_TYPE_F32, from->ne[0], ids->ne[0], 1, 1,
                        sources, 2, run, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace

RowParameters MakeRowParameters(const Hyperparameters& hp,
                                const Weights& weights, KernelForm form) {
  RowParameters parameters;
  parameters.forms = &RowFormsOf(form);
  parameters.norm_epsilon = hp.norm_epsilon;
  parameters.rope_pairs = hp.rope.pairs;
  std::span<const float> factors;
  if (const ggml_tensor* tensor = weights.Find("rope_freqs.weight")) {
    factors = {Floats(tensor), static_cast<size_t>(tensor->ne[0])};
  }
  parameters.rope_frequencies = RopeFrequencies(
      hp.rope.dimensions, hp.rope.base, hp.rope.position_scale, factors);
  return parameters;
}

ggml_tensor* EmbedOp(ggml_context* context, ggml_tensor* table,
                     ggml_tensor* tokens) {
  return SelectionOp(context, table, tokens, RunEmbed);
}

ggml_tensor* GatherOp(ggml_context* context, ggml_tensor* x, ggml_tensor* ids) {
  return SelectionOp(context, x, ids, RunGather);
}

ggml_tensor* PreviousHiddenOp(ggml_context* context, ggml_tensor* hidden,
                              const HiddenRows* rows) {
  return ggml_custom_4d(context, GGML_TYPE_F32, hidden->ne[0], hidden->ne[1], 1,
                        1, &hidden, 1, RunPreviousHidden, GGML_N_TASKS_MAX,
                        const_cast<HiddenRows*>(rows));
}

ggml_tensor* RmsNormOp(ggml_context* context, ggml_tensor* x,
                       ggml_tensor* weight, const RowParameters* parameters) {
  return RowOp(context, x, {x, weight}, RunRmsNorm, parameters);
}

ggml_tensor* AddOp(ggml_context* context, ggml_tensor* a, ggml_tensor* b,
                   const RowParameters* parameters) {
  return RowOp(context, a, {a, b},
               ggml_are_same_shape(a, b) ? RunAdd : RunAddBias, parameters);
}

SumAndNorm AddNormOp(ggml_context* context, ggml_tensor* a, ggml_tensor* b,
                     ggml_tensor* weight, const RowParameters* parameters) {
  ggml_tensor* sources[] = {a, b, weight};
  // [features, rows, {sum, normed}]
  ggml_tensor* both =
      ggml_custom_4d(context, GGML_TYPE_F32, a->ne[0], a->ne[1], 2, 1, sources,
                     3, RunAddNorm, GGML_N_TASKS_MAX, UserData(parameters));
  const auto part = [&](size_t offset) {
    return ggml_view_2d(context, both, both->ne[0], both->ne[1], both->nb[1],
                        offset);
  };
  return {part(0), part(both->nb[2])};
}

ggml_tensor* SwiGluOp(ggml_context* context, ggml_tensor* gate, ggml_tensor* up,
                      const RowParameters* parameters) {
  return RowOp(context, gate, {gate, up}, RunSwiGlu, parameters);
}

ggml_tensor* RopeTableOp(ggml_context* context, ggml_tensor* positions,
                         const RowParameters* parameters) {
  const int64_t columns =
      static_cast<int64_t>(4 * parameters->rope_frequencies.size());
  return ggml_custom_4d(context, GGML_TYPE_F32, columns, positions->ne[0], 1, 1,
                        &positions, 1, RunRopeTable, GGML_N_TASKS_MAX,
                        UserData(parameters));
}

ggml_tensor* RotateOp(ggml_context* context, ggml_tensor* x, ggml_tensor* table,
                      const RowParameters* parameters) {
  return RowOp(context, x, {x, table}, RunRotate, parameters);
}

}  // namespace baton::worker
