// The inner kernels of attention, one table of functions for each instruction
// set. Included by files that are compiled with different instruction sets:
// keep it free of inline functions and of any header that has some, or the
// linker may choose a copy that the processor cannot run.
#ifndef BATON_WORKER_KERNELS_ATTENTION_ATTENTION_FORMS_H_
#define BATON_WORKER_KERNELS_ATTENTION_ATTENTION_FORMS_H_

#include <stddef.h>
#include <stdint.h>

namespace baton::worker {

// Nothing need be aligned. dim is a multiple of 16; keys is 1..64.
struct AttentionForms {
  // out[i] = half-precision in[i], i < count (a multiple of 16).
  void (*widen)(const uint16_t* in, float* out, size_t count);
  // out[i] = in[i] rounded to half precision, nearest even; count is
  // a multiple of 16.
  void (*narrow)(const float* in, uint16_t* out, size_t count);
  // scores[j] = (q . k[j]) * scale for j < keys rounded up to a multiple of
  // 4. k: [64][dim].
  void (*score)(const float* q, const float* k, size_t dim, size_t keys,
                float scale, float* scores);
  // One online-softmax update. Turns scores[0, keys) into weights
  // exp(score - new maximum), updates *maximum and *sum, and returns the
  // factor that earlier results must be multiplied with.
  float (*soften)(float* scores, size_t keys, float* maximum, float* sum);
  // For each of `queries` accumulators acc[i] ([dim]): acc[i] = acc[i] *
  // factors[i] + sum over j < keys of weights[i][j] * v[j]. v: [64][dim];
  // weights: [queries][64].
  void (*gather)(const float* weights, const float* factors, const float* v,
                 size_t dim, size_t keys, size_t queries, float* acc);
};

extern const AttentionForms kScalarAttention;
#if defined(__x86_64__)
extern const AttentionForms kAvx2Attention;
extern const AttentionForms kAvx512Attention;
#endif

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_ATTENTION_FORMS_H_
