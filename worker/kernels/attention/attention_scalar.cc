// The portable form, and the definition of the order that the others follow.
#include "worker/kernels/attention/attention_forms.h"
#include "worker/kernels/attention/attention_kernel.h"
#include "worker/kernels/lanes_scalar.h"

namespace baton::worker {

const AttentionForms kScalarAttention = BATON_ATTENTION_FORMS(ScalarLanes);

}  // namespace baton::worker
