#include "worker/graph/kernel_ops.h"

namespace baton::worker {
namespace {

size_t RowFloats(const ggml_tensor* tensor) {
  return tensor->nb[2] / sizeof(float);
}

void RunWrite(ggml_tensor* out, int thread, int threads, void* userdata) {
  const AttentionLayer* layer = static_cast<const AttentionLayer*>(userdata);
  const ggml_tensor* k = out->src[0];
  const ggml_tensor* v = out->src[1];
  layer->attention->Write(layer->layer, static_cast<const float*>(k->data),
                          RowFloats(k), static_cast<const float*>(v->data),
                          RowFloats(v), thread, threads);
}

void RunAttend(ggml_tensor* out, int thread, int threads, void* userdata) {
  const AttentionLayer* layer = static_cast<const AttentionLayer*>(userdata);
  const ggml_tensor* q = out->src[0];
  layer->attention->Attend(layer->layer, static_cast<const float*>(q->data),
                           RowFloats(q), static_cast<float*>(out->data),
                           out->nb[1] / sizeof(float), thread, threads);
}

template <ActivationFormat format>
void RunQuantise(ggml_tensor* out, int thread, int threads, void* userdata) {
  const ggml_tensor* x = out->src[0];
  QuantiseRows(*static_cast<const MatMulForms*>(userdata), format,
               static_cast<const float*>(x->data), x->nb[1] / sizeof(float),
               static_cast<size_t>(x->ne[0]), static_cast<size_t>(x->ne[1]),
               static_cast<uint8_t*>(out->data), thread, threads);
}

void RunMultiply(ggml_tensor* out, int thread, int threads, void* userdata) {
  const ggml_tensor* weight = out->src[0];
  const ggml_tensor* rows = out->src[1];
  WeightMatrix matrix;
  matrix.format = *KernelFormat(weight->type);
  matrix.rows = static_cast<const uint8_t*>(weight->data);
  matrix.row_bytes = weight->nb[1];
  matrix.columns = static_cast<size_t>(weight->ne[0]);
  matrix.outputs = static_cast<size_t>(weight->ne[1]);
  Multiply(*static_cast<const MatMulForms*>(userdata), matrix,
           static_cast<const uint8_t*>(rows->data), rows->nb[1],
           static_cast<size_t>(rows->ne[1]), static_cast<float*>(out->data),
           out->nb[1] / sizeof(float), thread, threads);
}

// ggml hands the address back as it got it; it is only read.
void* UserData(const MatMulForms* forms) {
  return const_cast<MatMulForms*>(forms);
}

}  // namespace

ggml_tensor* WriteCacheOp(ggml_context* context, ggml_tensor* k, ggml_tensor* v,
                          AttentionLayer* layer) {
  ggml_tensor* sources[] = {k, v};
  return ggml_custom_4d(context, GGML_TYPE_F32, 1, 1, 1, 1, sources, 2,
                        RunWrite, GGML_N_TASKS_MAX, layer);
}

ggml_tensor* AttendOp(ggml_context* context, ggml_tensor* q,
                      ggml_tensor* written, AttentionLayer* layer) {
  ggml_tensor* sources[] = {q, written};
  return ggml_custom_4d(context, GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2],
                        1, 1, sources, 2, RunAttend, GGML_N_TASKS_MAX, layer);
}

std::optional<WeightFormat> KernelFormat(ggml_type type) {
  switch (type) {
    case GGML_TYPE_Q4_0:
      return kQ4_0;
    case GGML_TYPE_Q4_1:
      return kQ4_1;
    case GGML_TYPE_Q5_0:
      return kQ5_0;
    case GGML_TYPE_Q5_1:
      return kQ5_1;
    case GGML_TYPE_Q8_0:
      return kQ8_0;
    case GGML_TYPE_IQ4_NL:
      return kIq4Nl;
    case GGML_TYPE_Q4_K:
      return kQ4K;
    case GGML_TYPE_Q5_K:
      return kQ5K;
    case GGML_TYPE_Q6_K:
      return kQ6K;
    case GGML_TYPE_IQ4_XS:
      return kIq4Xs;
    case GGML_TYPE_F32:
      return kF32;
    case GGML_TYPE_F16:
      return kF16;
    case GGML_TYPE_BF16:
      return kBf16;
    default:
      return std::nullopt;
  }
}

ggml_tensor* QuantiseOp(ggml_context* context, ggml_tensor* x,
                        ActivationFormat format, const MatMulForms* forms) {
  const size_t bytes =
      ActivationRowBytes(format, static_cast<size_t>(x->ne[0]));
  return ggml_custom_4d(context, GGML_TYPE_I8, static_cast<int64_t>(bytes),
                        x->ne[1], 1, 1, &x, 1,
                        format == ActivationFormat::kLargeBlocks
                            ? RunQuantise<ActivationFormat::kLargeBlocks>
                            : RunQuantise<ActivationFormat::kSmallBlocks>,
                        GGML_N_TASKS_MAX, UserData(forms));
}

ggml_tensor* MultiplyOp(ggml_context* context, ggml_tensor* weight,
                        ggml_tensor* rows, const MatMulForms* forms) {
  ggml_tensor* sources[] = {weight, rows};
  return ggml_custom_4d(context, GGML_TYPE_F32, weight->ne[1], rows->ne[1], 1,
                        1, sources, 2, RunMultiply, GGML_N_TASKS_MAX,
                        UserData(forms));
}

}  // namespace baton::worker
