// The portable form, and the definition of the order that the others follow.
#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/attention_kernel.h"
#include "worker/kernels/lanes_scalar.h"

namespace baton::worker {
namespace {

void TransposeSingle(const float* in, size_t dim, size_t keys, float* out) {
  TransposeScalar(in, dim, keys, out);
}
void TransposeHalf(const uint16_t* in, size_t dim, size_t keys, uint16_t* out) {
  TransposeScalar(in, dim, keys, out);
}

}  // namespace

const AttentionForms kScalarAttention = BATON_ATTENTION_FORMS(ScalarLanes);

}  // namespace baton::worker
