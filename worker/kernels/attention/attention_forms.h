// The inner kernels of attention, one table of functions for each instruction
// set. Included by files that are compiled with different instruction sets:
// keep it free of inline functions and of any header that has some, or the
// linker may choose a copy that the processor cannot run.
#ifndef BATON_WORKER_KERNELS_ATTENTION_ATTENTION_FORMS_H_
#define BATON_WORKER_KERNELS_ATTENTION_ATTENTION_FORMS_H_

#include <stddef.h>
#include <stdint.h>

namespace baton::worker {

// c[i] = c[i] * factors[i] + sum over j < inner, ascending, of a[i][j] * b[j],
// for `rows` rows of c of `columns` elements (a multiple of 16). Without
// factors, c is not read and the sum starts from zero. Scores are the product
// of queries and transposed keys; results, that of weights and values.
struct AttentionProduct {
  const float* a;
  size_t a_stride;  // in elements, as all strides are
  float* c;
  size_t c_stride;
  const float* factors;
  size_t rows, columns, inner;
};

// A matrix b of `inner` rows in panels of 32 columns: [panel][inner][32], so
// that what is read together lies together (rows whose length is a power of
// two would fall on each other in the cache).
inline constexpr size_t kPanelColumns = 32;

// Nothing need be aligned. Half precision is widened exactly. dim is a multiple
// of 16; keys is 1..64.
struct AttentionForms {
  // out[i] = in[i] rounded to half precision, nearest even; count is
  // a multiple of 16.
  void (*narrow)(const float* in, uint16_t* out, size_t count);
  // out[d][j] = in[j][d] for j < keys rounded up to a multiple of 16. in:
  // [64][dim]; out: [dim][64].
  void (*transpose)(const float* in, size_t dim, size_t keys, float* out);
  void (*transpose_half)(const uint16_t* in, size_t dim, size_t keys,
                         uint16_t* out);
  // out = panels of the first `columns` (a multiple of 16) of in ([rows],
  // `stride` elements apart). Asks for the same part of `next`, unless null.
  void (*pack)(const float* in, const float* next, size_t stride, size_t rows,
               size_t columns, float* out);
  void (*pack_half)(const uint16_t* in, const uint16_t* next, size_t stride,
                    size_t rows, size_t columns, float* out);
  // b in panels of `panel_rows` rows each, of which `inner` count.
  void (*multiply)(const AttentionProduct& product, const float* panels,
                   size_t panel_rows);
  // At most kFewRows rows: b as it lies, [inner] rows `stride` apart.
  void (*multiply_few)(const AttentionProduct& product, const uint16_t* b,
                       const uint16_t* next, size_t stride);
  // One online-softmax update. Turns scores[0, keys) into weights
  // exp(score - new maximum), those up to 64 into 0, updates *maximum and
  // *sum, and returns the factor that earlier results must be multiplied with.
  float (*soften)(float* scores, size_t keys, float* maximum, float* sum);
};
inline constexpr size_t kFewRows = 4;

extern const AttentionForms kScalarAttention;
#if defined(__x86_64__)
extern const AttentionForms kAvx2Attention;
extern const AttentionForms kAvx512Attention;
#endif

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ATTENTION_ATTENTION_FORMS_H_
