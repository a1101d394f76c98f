// The inner kernels of the row operations, one table of functions for each
// instruction set. Included by files that are compiled with different
// instruction sets: keep it free of functions (see attention_forms.h).
#ifndef BATON_WORKER_KERNELS_ROWS_ROW_FORMS_H_
#define BATON_WORKER_KERNELS_ROWS_ROW_FORMS_H_

#include <stddef.h>

namespace baton::worker {

// One row each; what they compute is defined in rows.h. `count` is any number
// of floats, nothing need be aligned, and no output overlaps an input.
struct RowForms {
  void (*rms_norm)(const float* x, const float* weight, size_t count,
                   float epsilon, float* out);
  void (*add)(const float* a, const float* b, size_t count, float* out);
  void (*swiglu)(const float* gate, const float* up, size_t count, float* out);
  // count is even; cosines and sines: [count] each, as in a row of the table
  // (rope.h).
  void (*rotate_adjacent)(const float* x, const float* cosines,
                          const float* sines, size_t count, float* out);
  void (*rotate_halves)(const float* x, const float* cosines,
                        const float* sines, size_t count, float* out);
};

extern const RowForms kScalarRows;
#if defined(__x86_64__)
extern const RowForms kAvx2Rows;
#endif

}  // namespace baton::worker

#endif  // BATON_WORKER_KERNELS_ROWS_ROW_FORMS_H_
