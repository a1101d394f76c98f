#include "worker/kernels/ggml_ops.h"

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

}  // namespace baton::worker
